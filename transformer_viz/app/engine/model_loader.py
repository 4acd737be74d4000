"""Models that are loaded: each once for all visitors, the ones used last, as many as may stay."""

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

PAINTING = 1.5  # seconds that a browser may need for its first picture on a busy machine
BYTES = 4_000_000_000  # of all their weights together; the newest one stays in any case


@dataclass(eq=False)
class Loading:
    """A model that is to be loaded, or is, and what it is loaded from.

    ``begun`` once its turn has come; ``waiting`` counts the visitors who wait for it now, ``left``
    says that all who ever did have gone.
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
    """Loads the models of a shelf in the background and forgets those not used for longest.

    What visitors bring is loaded one after the other, so that many links at once take the memory
    of one; what nobody waits for any more when its turn comes is not loaded at all.
    """

    def __init__(self, shelf: Shelf, most: int | None = None, limit: int = BYTES) -> None:
        self.shelf = shelf
        self.most = settings.MODELS_KEPT.number if most is None else most
        self.limit = limit
        self._loadings: OrderedDict[str, Loading] = OrderedDict()
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()  # of what visitors bring
        self._expected = False
        self._on_processor: set[str] = set()  # names for which the graphics card was too small

    def __contains__(self, name: str) -> bool:
        return name in self._loadings

    def start(self, name: str) -> Future[Model]:
        """Begin to load a model in the background, once; a failed attempt may be tried again.

        A visitor's file that was written anew since is loaded anew.

        Raises:
            KeyError: there is no such model; says why and what to do.
        """
        return self._loading(name).promise

    def _loading(self, name: str, waiting: int = 0) -> Loading:
        """The loading of a model, begun if need be; ``waiting`` more visitors wait for it."""
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
        """Begin to load a model a moment later, when the browser has painted what it was sent."""
        if name not in self:
            timer = threading.Timer(PAINTING, self._start_quietly, args=(name,))
            timer.daemon = True
            timer.start()

    def expect(self) -> None:
        """Be ready for a file from outside the box: what opens it takes seconds to start."""
        if settings.APART.on and not self._expected:
            self._expected = True
            threading.Thread(target=_warm_up, daemon=True).start()

    def _start_quietly(self, name: str) -> None:
        with suppress(KeyError):  # an upload may be gone by now
            self.start(name)

    def ready(self, name: str) -> bool:
        """Whether a model is loaded."""
        loading = self._loadings.get(name)
        return loading is not None and loading.ready

    def loaded(self) -> list[int]:
        """Bytes of the weights of each model that is loaded."""
        with self._lock:
            return [one.bytes for one in self._loadings.values() if one.ready]

    def get(self, name: str, task: Task) -> Model:
        """The model, waited for if need be.

        Raises:
            ValueError: the checkpoint is missing or cannot be used; says why and what to do.
            KeyError: there is no such model.
            Abandoned: the task was given up; the model goes on loading for the next visitor.
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
        """Propose a layout's names for the weights of a visitor's file, one file at a time.

        Args:
            name: the model.
            layout: the layout; None takes the one that fits best.
            task: somebody waits for it.

        Raises:
            ValueError: a file that cannot be read, or that no names can be proposed for.
            KeyError: there is no such model.
            Abandoned: the task was given up.
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
        """Have a model whose run has filled its graphics card compute on the processor from now on.

        Raises:
            ValueError: it was that; says so, and to do the same again.
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
        """Let go of the models whose names are unwanted; runs that are under way still end.

        Returns whether there were any.
        """
        with self._lock:
            names = [name for name in self._loadings if unwanted(name)]
            for name in names:
                del self._loadings[name]
        if names:
            give_back()
        return bool(names)

    def _in_turn(self, loading: Loading) -> None:
        """Load a model of ours at once, one that a visitor brought after those before it."""
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
            # Torch leaves a great many objects behind; frozen, no later collection walks over them.
            gc.collect()
            gc.freeze()
        loading.promise.set_result(model)

    def _too_many(self, coming: int) -> set[str]:
        """The models that have to go for so many bytes, those first that were used longest ago."""
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
    """The words that a visitor said; vocabulary files are those in the folder of the weights."""
    return {
        VOCABULARIES.get(word, word): str(shelved.folder / value) if word in VOCABULARIES else value
        for word, value in shelved.overrides.items()
    }


def _base_of(shelved: Shelved) -> dict[str, Any]:
    """Where the model of a visitor's adapter may stand: below the roots; of an upload, within it.

    The adapter's own config names that place, and must lead a visitor nowhere else.
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
    """An error without the frames it came through, which hold all weights that were read.

    Nor does its sentence say where on the server the model's ``folder`` is. What no checkpoint
    should raise is first told to the operator.
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
