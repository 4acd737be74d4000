"""Between pages and models: loads them once, runs them a few at a time, remembers what was run.

Nothing here imports torch before a model is needed. The stored example of a model answers the
first question of a visit, so a picture stands before torch does.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.shelf import EXAMPLE, PRETRAINED, WEIGHTS
from ..interventions import Intervention, Pad
from ..records import Trace
from ..sites import MAPS, Site
from ..storage import load_trace
from .cache import MEGABYTE, Cache

if TYPE_CHECKING:
    from ..checkpoints import Model
    from ..decode import Hypothesis

LONGEST = 128  # tokens of a sentence that the app takes; the model itself may take more
PAINTING = 1.5  # seconds that a browser may need for its first picture on a busy machine
WHOLE = 8 * MEGABYTE  # matrices of all heads are kept while they are smaller than this


@dataclass(frozen=True)
class Question:
    """What a visitor asks: a sentence, for one model, with a typed target or by beam search."""

    model: str
    text: str
    target: str = ""
    beam: int = 4


@dataclass(frozen=True, eq=False)
class Answer:
    """The clean run: its trace, and the text of the target words that every edit holds."""

    trace: Trace
    text: str


@dataclass(frozen=True)
class Shelved:
    """A model that can be chosen, as far as its files tell without loading it."""

    name: str
    path: Path

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS if self.path.is_dir() else self.path

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the weights file; empty when there is none to read."""
        try:
            with self.weights.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return ""

    @cached_property
    def parameters(self) -> int | None:
        """How many numbers the file holds, from its header alone; None if it is no safetensors."""
        try:
            with self.weights.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(length, 10 * MEGABYTE)))
        except (OSError, ValueError):
            return None
        shapes = [item["shape"] for name, item in header.items() if name != "__metadata__"]
        return sum(_product(shape) for shape in shapes)

    @cached_property
    def example(self) -> Trace | None:
        """The stored clean run, if there is one and it was made with these very weights."""
        try:
            trace = load_trace(self.folder / EXAMPLE)
        except (OSError, ValueError):
            return None
        return trace if trace.manifest.get("hash") == self.hash else None


def _product(shape: list[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def shelf(first: str, further: str) -> dict[str, Shelved]:
    """The models to choose from: the wanted one first, then the box, then the further folder."""
    found: dict[str, Shelved] = {}
    for folder in filter(None, (str(PRETRAINED), further)):
        for weights in sorted(Path(folder).glob(f"*/{WEIGHTS}")):
            found.setdefault(weights.parent.name, Shelved(weights.parent.name, weights.parent))
    if first not in found and first:
        path = Path(first)
        found[path.name] = Shelved(path.name, path)
    name = first if first in found else Path(first).name
    return {name: found[name]} | found if name in found else found


class Engine:
    """The models, and the runs that were asked for. One serves all visitors of a server."""

    def __init__(self, first: str, further: str = "", limit: int = 256 * MEGABYTE) -> None:
        self.shelf = shelf(first, further)
        self.cache = Cache(limit)
        self._gate = threading.BoundedSemaphore(int(os.environ.get("TRANSFORMER_VIZ_FORWARDS", 2)))
        self._models: dict[str, Future[Model]] = {}
        self._lock = threading.Lock()

    def start(self, name: str) -> Future[Model]:
        """Begin to load a model in the background, once; a failed attempt may be tried again."""
        with self._lock:
            known = self._models.get(name)
            if known is not None and not (known.done() and known.exception()):
                return known
            promise: Future[Model] = Future()
            self._models[name] = promise
        threading.Thread(target=self._load, args=(name, promise), daemon=True).start()
        return promise

    def prepare(self, name: str) -> None:
        """Begin to load a model a moment later, when the browser has painted what it was sent."""
        if name not in self._models:
            timer = threading.Timer(PAINTING, self.start, args=(name,))
            timer.daemon = True
            timer.start()

    def ready(self, name: str) -> bool:
        """Whether a model is loaded."""
        promise = self._models.get(name)
        return promise is not None and promise.done() and not promise.exception()

    def model(self, name: str) -> Model:
        """The model, waited for if need be.

        Raises:
            ValueError: the checkpoint is missing or cannot be used; says why and what to do.
        """
        return self.start(name).result()

    def _load(self, name: str, promise: Future[Model]) -> None:
        try:
            from .. import decode, tracing  # noqa: F401 - so that the first run finds them imported
            from ..checkpoints import load

            model = load(str(self.shelf[name].path))
        except BaseException as error:
            promise.set_exception(error)
            return
        # Torch leaves a great many objects behind; frozen, no later collection walks over them.
        gc.collect()
        gc.freeze()
        promise.set_result(model)

    def example(self, question: Question) -> Answer | None:
        """The stored run, where it answers this very question."""
        trace = self.shelf[question.model].example
        if trace is None or trace.produced is None:
            return None
        if question != Question(question.model, example_text(trace)):
            return None
        return Answer(trace, _joined(trace.produced.pieces[:-1]))  # the last one ends the sentence

    def opening(self, name: str, block: str) -> dict[str, int]:
        """The head that a visit without a link begins with: the stored run's most decided one."""
        shelved = self.shelf.get(name)
        if shelved is None or shelved.example is None or block not in shelved.example.maps:
            return {}
        heads = shelved.example.heads
        stack, kind = MAPS[block]
        mine = heads[(heads["stack"] == stack) & (heads["block"] == kind)]
        best = mine.loc[mine["entropy"].idxmin()]
        return {"layer": int(best["layer"]), "head": int(best["head"])}

    def clean(self, question: Question, place: Site) -> Answer:
        """The run without edits; ``place`` is the layer on the screen.

        Raises:
            ValueError: a text that the model cannot take; says why.
        """
        stored = self.example(question)
        if stored is not None:
            return stored
        model = self.model(question.model)
        if model.kind != "encoder-decoder":
            raise ValueError(
                f"{model.name} is {model.kind}; this page shows models with an encoder and a "
                "decoder so far. transformer-viz trace runs any of them."
            )
        only = self._only(model, question, place, Intervention())
        target: Any = question.target
        text = question.target
        if not target:
            best = self._best(question, Intervention())
            target = [model.bos_id, *(best.ids[:-1] if best.finished else best.ids)]
            text = best.text
        key = ("clean", model.hash, question, only)
        run = self.cache.get(key, lambda: self._guarded(_clean, model, question, target, only))
        return Answer(run, text)

    def changed(
        self, question: Question, answer: Answer, intervention: Intervention, place: Site
    ) -> Trace:
        """A run with edits, asked about the same target words as the clean one.

        Raises:
            ValueError: an edit that fits no place of this model; says which there are.
        """
        model = self.model(question.model)
        only = self._only(model, question, place, intervention)
        key = ("changed", model.hash, question, intervention.to_json(), only)
        return self.cache.get(
            key, lambda: self._guarded(_changed, model, question, answer, intervention, only)
        )

    def free(self, question: Question, intervention: Intervention) -> str:
        """What the model says by itself when nobody holds its words."""
        return self._best(question, intervention).text

    def _best(self, question: Question, intervention: Intervention) -> Hypothesis:
        model = self.model(question.model)
        key = ("best", model.hash, question.text, question.beam, intervention.to_json())
        return self.cache.get(key, lambda: self._guarded(_search, model, question, intervention))

    def lost(self, question: Question) -> tuple[str, ...]:
        """Characters of the text that the model's vocabulary cannot see."""
        if self.example(question) is not None:
            return ()
        return self.model(question.model).tokenizer.lost(question.text)

    def _guarded(self, run: Callable[..., Any], *words: Any) -> Any:
        """A run through the gate: only so many at a time, however many visitors there are."""
        with self._gate:
            return run(*words)

    def _only(
        self, model: Model, question: Question, place: Site, intervention: Intervention
    ) -> tuple[Site, ...] | None:
        """Which matrices to keep: all while they are small, or else the layer on the screen."""
        tokens = _length(model, question, intervention)
        heads = int(model.config.get("heads", 12))
        layers = sum(
            int(model.config.get(f"{stack}_layers", 12)) for stack in ("encoder", "decoder")
        )
        return None if 3 * layers * heads * tokens**2 * 4 <= WHOLE else (place,)


def example_text(trace: Trace) -> str:
    """The sentence of a stored run."""
    return _joined(
        p for p, mark in zip(trace.source.pieces, trace.source.special, strict=True) if not mark
    )


def _joined(pieces: Iterable[str]) -> str:
    """Pieces of a sentencepiece vocabulary as text, without the library that made them."""
    return "".join(pieces).replace("▁", " ").strip()


def whole_layer(block: str, layer: int) -> Site:
    """The site of all heads of a layer."""
    return Site(*MAPS[block], layer)


def _length(model: Model, question: Question, intervention: Intervention) -> int:
    """How many tokens the model reads, those included that an edit appends.

    Raises:
        ValueError: nothing to read, or more than the app takes.
    """
    tokens = len(model.tokenizer.source_ids(question.text))
    tokens += sum(edit.count for edit in intervention if isinstance(edit, Pad))
    if tokens > LONGEST:
        raise ValueError(
            f"This text has {tokens:,} tokens and the app takes at most {LONGEST}: its pictures "
            "show one sentence. Shorten it, or use transformer-viz trace for long texts."
        )
    return tokens


def _clean(
    model: Model, question: Question, target: str | list[int], only: tuple[Site, ...] | None
) -> Trace:
    from ..tracing import trace

    return trace(
        model, question.text, target=target, keep=("weights", "scores"), only=only, check=False
    )


def _changed(
    model: Model,
    question: Question,
    answer: Answer,
    intervention: Intervention,
    only: tuple[Site, ...] | None,
) -> Trace:
    from ..tracing import trace

    assert answer.trace.target is not None and answer.trace.produced is not None
    return trace(
        model,
        question.text,
        target=list(answer.trace.target.ids),
        produced=list(answer.trace.produced.ids),
        intervention=intervention,
        keep=("weights", "scores"),
        only=only,
        check=False,
    )


def _search(model: Model, question: Question, intervention: Intervention) -> Hypothesis:
    from ..decode import translate

    return translate(model, question.text, beam=question.beam, intervention=intervention)[0]
