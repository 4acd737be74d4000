"""Loaded models: each once for all users, least recently used ones are dropped."""

from __future__ import annotations

import gc
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import settings
from ...core.errors import is_card_full
from ...i18n import say
from . import hub_models
from .memory import give_back
from .model_catalog import Shelf, Shelved
from .model_names import HUB, UPLOAD, VOCABULARIES, find_below, is_own, parted, veiled
from .task import Abandoned, Task

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...checkpoints.naming.name_proposals import NameProposal

PAINTING = 1.5  # seconds that a browser may need for its first paint on a busy machine
BYTES = 4_000_000_000  # weights of all loaded models together; the newest one stays in any case


@dataclass(eq=False)
class Loading:
    """A model that is loaded or will be, and its files.

    Attributes:
        written: Paths and times of the files, to notice changes.
        begun: Set once its turn has come.
        waiting: Number of users who wait for it now.
        left: True if all users who waited have given up.
    """

    name: str
    shelved: Shelved
    written: tuple[object, ...]
    promise: Future[Model] = field(default_factory=Future)
    begun: threading.Event = field(default_factory=threading.Event)
    waiting: int = 0
    left: bool = False

    @property
    def ready(self) -> bool:
        return self.promise.done() and not self.promise.exception()

    @property
    def failed(self) -> bool:
        return self.promise.done() and self.promise.exception() is not None

    @property
    def bytes(self) -> int:
        return 4 * self.promise.result().parameters if self.ready else 0


class Models:
    """Loader of the models of a catalog in the background, with a least-recently-used limit.

    Models of users are loaded one after the other, so that many links at once take the memory of
    one. A model that no user waits for when its turn comes is not loaded.
    """

    def __init__(self, shelf: Shelf, most: int | None = None, limit: int = BYTES) -> None:
        self.shelf = shelf
        self.most = settings.MODELS_KEPT.number if most is None else most
        self.limit = limit
        self._loadings: OrderedDict[str, Loading] = OrderedDict()
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()  # for models of users
        self._expected = False
        self._on_processor: set[str] = set()  # models too large for the graphics card

    def __contains__(self, name: str) -> bool:
        return name in self._loadings

    def start(self, name: str) -> Future[Model]:
        """Start loading a model in the background, once; a failed attempt may be repeated.

        A user's file that has changed since is loaded again.

        Raises:
            KeyError: There is no such model; the message gives a remedy.
        """
        return self._loading(name).promise

    def _loading(self, name: str, waiting: int = 0) -> Loading:
        """Return the loading of a model, started if necessary; add ``waiting`` users."""
        shelved = self.shelf[name]
        written = shelved.written if shelved.is_own else ()
        with self._lock:
            known = self._loadings.get(name)
            if known is not None and not known.failed and known.written == written:
                self._loadings.move_to_end(name)
                known.waiting += waiting
                known.left = known.left and not waiting
                return known
            loading = self._loadings[name] = Loading(name, shelved, written, waiting=waiting)
            self._loadings.move_to_end(name)
        if not shelved.in_the_box:
            self.expect()  # it starts while this process imports torch, or waits for its turn
        threading.Thread(target=self._in_turn, args=(loading,), daemon=True).start()
        return loading

    def prepare(self, name: str) -> None:
        """Schedule the loading of a model, after the browser has painted its first response."""
        if name not in self:
            timer = threading.Timer(PAINTING, self._start_quietly, args=(name,))
            timer.daemon = True
            timer.start()

    def expect(self) -> None:
        """Start the process that opens files that are not bundled; its start takes seconds."""
        if settings.APART.on and not self._expected:
            self._expected = True
            threading.Thread(target=_warm_up, daemon=True).start()

    def _start_quietly(self, name: str) -> None:
        with suppress(KeyError):  # an upload may be gone by now
            self.start(name)

    def ready(self, name: str) -> bool:
        """Return True if a model is loaded."""
        loading = self._loadings.get(name)
        return loading is not None and loading.ready

    def loaded(self) -> list[int]:
        """Return the bytes of the weights of each loaded model."""
        with self._lock:
            return [one.bytes for one in self._loadings.values() if one.ready]

    def get(self, name: str, task: Task) -> Model:
        """Return the model; wait until it is loaded.

        Raises:
            ValueError: The checkpoint is missing or unusable; the message gives a remedy.
            KeyError: There is no such model.
            Abandoned: The task was abandoned; loading goes on for the next user.
        """
        loading = self._loading(name, waiting=1)
        try:
            told = say("Waiting for another model to be loaded ...")
            task.until(loading.begun.wait, lambda: told)
            words = say("Loading {model} ...", model=loading.shelved.called)
            task.until(lambda seconds: bool(wait([loading.promise], seconds).done), lambda: words)
        finally:
            with self._lock:
                loading.waiting -= 1
                loading.left = not loading.waiting
        return loading.promise.result()

    def propose(self, name: str, layout: str | None, task: Task) -> NameProposal:
        """Propose a layout's names for the weights of a user's file, one file at a time.

        Args:
            name: Name of the model.
            layout: The layout; None takes the one that fits best.
            task: Task of the page that waits.

        Raises:
            ValueError: The file cannot be read, or no names can be proposed for it.
            KeyError: There is no such model.
            Abandoned: The task was abandoned.
        """
        shelved = self.shelf[name]
        words = say("Waiting for another model to be loaded ...")
        task.until(lambda seconds: self._one_at_a_time.acquire(timeout=seconds), lambda: words)
        try:
            if settings.APART.on:
                from ...opening import propose_apart

                return propose_apart(str(shelved.path), layout)
            from ...checkpoints.proposing import assumed_words, propose_names

            found = propose_names(str(shelved.path), layout)
            return replace(found, assumed=assumed_words(str(shelved.path), found))
        except BaseException as error:
            raise _bare(error, shelved.path.parent) from None
        finally:
            self._one_at_a_time.release()

    def leave_full_card(self, error: BaseException, model: Model | None = None) -> None:
        """Move a model to the processor if its run has filled the memory of its graphics card.

        Raises:
            ValueError: The card was full; the message asks to repeat the action.
        """
        if model is None or not is_card_full(error) or model.device == "cpu":
            return
        with self._lock:
            ready = [(name, one.promise.result()) for name, one in self._loadings.items()
                     if one.ready]  # fmt: skip
        mine = {name for name, loaded in ready if loaded is model}
        self._on_processor |= mine
        self.forget(mine.__contains__)
        raise ValueError(
            say(
                "The graphics card has too little memory for this. The model computes on the "
                "processor from now on, which is slower; do the same again."
            )
        ) from None

    def forget(self, unwanted: Callable[[str], bool]) -> bool:
        """Drop the models with unwanted names; their current runs still finish.

        Returns:
            True if there were any.
        """
        with self._lock:
            names = [name for name in self._loadings if unwanted(name)]
            for name in names:
                del self._loadings[name]
        if names:
            give_back()
        return bool(names)

    def _in_turn(self, loading: Loading) -> None:
        """Load a model of the server at once, a user's model after those before it."""
        if not loading.shelved.is_own:
            loading.begun.set()
            return self._load(loading)
        with self._one_at_a_time:
            with self._lock:
                wanted = not loading.left
                if not wanted and self._loadings.get(loading.name) is loading:
                    del self._loadings[loading.name]
            loading.begun.set()
            if wanted:
                self._load(loading)
            else:
                loading.promise.set_exception(Abandoned("Nobody waits for this model any more."))

    def _load(self, loading: Loading) -> None:
        try:
            from ...checkpoints import load
            from ...inference import generation, tracing  # noqa: F401 - so that the first run finds them imported
            from ...opening import open_apart

            shelved = loading.shelved
            way = load if shelved.in_the_box or not settings.APART.on else open_apart
            place = "cpu" if loading.name in self._on_processor else None
            words = _words_of(shelved) | _base_of(shelved)
            model = way(str(shelved.path), device=place, **words)
        except BaseException as error:
            loading.promise.set_exception(_bare(error, loading.shelved.path.parent))
            return
        too_many = self._too_many(4 * model.parameters)
        if not self.forget(too_many.__contains__):
            # Torch creates very many objects. Frozen ones are skipped by later collections.
            gc.collect()
            gc.freeze()
        loading.promise.set_result(model)

    def _too_many(self, coming: int) -> set[str]:
        """Return the least recently used models to drop for so many new bytes."""
        with self._lock:
            loaded = [(name, one.bytes) for name, one in self._loadings.items() if one.ready]
        gone = set()
        while loaded and (
            len(loaded) >= self.most or coming + sum(size for _, size in loaded) > self.limit
        ):
            gone.add(loaded.pop(0)[0])
        return gone


def _warm_up() -> None:
    from ...opening.places import NURSERY

    NURSERY.warm()


def _words_of(shelved: Shelved) -> dict[str, Any]:
    """Return a user's overrides; vocabulary files are those in the folder of the weights."""
    return {
        VOCABULARIES.get(word, word): str(shelved.folder / value) if word in VOCABULARIES else value
        for word, value in shelved.overrides.items()
    }


def _base_of(shelved: Shelved) -> dict[str, Any]:
    """Return the base model of a user's adapter: below the roots; for an upload, inside of it.

    The adapter's config names that path, and must not lead to any other folder.
    """
    from ...checkpoints.files.adapters import base_of, weights_of

    if not is_own(shelved.name):
        return {}
    if shelved.name.startswith(HUB):
        below = hub_models.base(parted(shelved.name)[0])
        return {} if below is None else {"base": str(below)}
    path = shelved.path if shelved.path.is_dir() else shelved.path.parent
    adapter = weights_of(path)
    if adapter is None or shelved.name.startswith(UPLOAD):
        return {"base": False}
    return {"base": str(find_below(str(Path(base_of(adapter, None)).resolve())))}


def _bare(error: BaseException, folder: Path) -> BaseException:
    """Return an error without its traceback frames, which hold all weights that were read.

    Its message does not name the path of the model's ``folder`` on the server. Errors that no
    checkpoint should raise are first printed to the operator's log.
    """
    if not isinstance(error, ValueError | OSError):
        traceback.print_exception(error)
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ValueError) and error.args:
        error.args = (veiled(str(error.args[0]), folder), *error.args[1:])
    return error
