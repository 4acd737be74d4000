"""Between pages and models: loads them once, runs them a few at a time, remembers what was run.

Nothing here imports torch before a model is needed. The stored example of a model answers the
first question of a visit, so a picture stands before torch does.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..interventions import Intervention, Pad
from ..records import Trace
from ..sites import MAPS, Site
from ..text import Tokenizer
from .cache import MEGABYTE, Cache
from .gate import Gate
from .shelf import shelf
from .task import Task
from .vocabulary import Names, another_order

if TYPE_CHECKING:
    from ..checkpoints import Model
    from ..decode import Hypothesis

LONGEST = 128  # tokens of a sentence that the app takes; the model itself may take more
PAINTING = 1.5  # seconds that a browser may need for its first picture on a busy machine
WHOLE = 8 * MEGABYTE  # matrices of all heads are kept while they are smaller than this
KEEP = ("weights", "scores", "hidden")  # what the pages show of a run


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


class Engine:
    """The models, and the runs that were asked for. One serves all visitors of a server.

    A run takes a `Task` where somebody waits for it: it says how far it is, and ends when it is
    abandoned, which leaves nothing behind.
    """

    def __init__(self, first: str, further: str = "", limit: int = 256 * MEGABYTE) -> None:
        self.shelf = shelf(first, further)
        self.cache = Cache(limit)
        self.gate = Gate(int(os.environ.get("TRANSFORMER_VIZ_FORWARDS", 2)))
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

    def model(self, name: str, task: Task | None = None) -> Model:
        """The model, waited for if need be.

        Raises:
            ValueError: the checkpoint is missing or cannot be used; says why and what to do.
            Abandoned: the task was given up; the model goes on loading for the next visitor.
        """
        promise = self.start(name)
        (task or Task()).until(
            lambda seconds: bool(wait([promise], seconds).done), f"Loading {name} ..."
        )
        return promise.result()

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

    def clean(self, question: Question, place: Site, task: Task | None = None) -> Answer:
        """The run without edits; ``place`` is the layer on the screen.

        Raises:
            ValueError: a text that the model cannot take; says why.
            Abandoned: the task was given up.
        """
        stored = self.example(question)
        if stored is not None:
            return stored
        task = task or Task()
        model = self.model(question.model, task)
        if model.kind != "encoder-decoder":
            raise ValueError(
                f"{model.name} is {model.kind}; this page shows models with an encoder and a "
                "decoder so far. transformer-viz trace runs any of them."
            )
        only = self._only(model, question, place, Intervention())
        target: Any = question.target
        text = question.target
        if not target:
            best = self._best(question, question.text, Intervention(), task)
            target = [model.bos_id, *(best.ids[:-1] if best.finished else best.ids)]
            text = best.text
        key = ("clean", model.hash, question, only)
        return Answer(self._run(key, task, _clean, model, question, target, only), text)

    def changed(
        self,
        question: Question,
        answer: Answer,
        intervention: Intervention,
        place: Site,
        task: Task | None = None,
    ) -> Trace:
        """A run with edits, asked about the same target words as the clean one.

        Raises:
            ValueError: an edit that fits no place of this model; says which there are.
            Abandoned: the task was given up.
        """
        task = task or Task()
        model = self.model(question.model, task)
        only = self._only(model, question, place, intervention)
        key = ("changed", model.hash, question, intervention.to_json(), only)
        words = (model, question, answer, intervention, only)
        trace: Trace = self._run(key, task, _changed, *words)
        return trace

    def free(self, question: Question, intervention: Intervention, task: Task | None = None) -> str:
        """What the model says by itself when nobody holds its words."""
        return self._best(question, question.text, intervention, task or Task()).text

    def free_ids(
        self,
        question: Question,
        ids: Sequence[int],
        intervention: Intervention,
        task: Task | None = None,
    ) -> str:
        """What the model says by itself of these tokens instead of the sentence's own.

        Raises:
            ValueError: ids that the model does not know, or more than it reads.
            Abandoned: the task was given up.
        """
        return self._best(question, tuple(ids), intervention, task or Task()).text

    def reordered(self, question: Question, seed: int) -> tuple[int, ...]:
        """The sentence's tokens in another order, the same one for the same seed.

        Special tokens and the punctuation at the end stay where they are.
        """
        tokenizer = self._tokenizer(question.model)
        return another_order(tokenizer.tokens(tokenizer.source_ids(question.text)), seed)

    def text_of(self, name: str, ids: Sequence[int]) -> str:
        """The text that tokens make; special tokens are left out."""
        return self._tokenizer(name).decode(ids)

    def pieces(self, name: str) -> Sequence[str]:
        """What every token of a model's vocabulary is called, ``[id]``; seldom needs the model."""
        return Names(self._tokenizer(name))

    def _tokenizer(self, name: str) -> Tokenizer:
        """The vocabulary beside the weights, or else the loaded model's."""
        beside = None if self.ready(name) else self.shelf[name].vocabulary
        return beside or self.model(name).tokenizer

    def _best(
        self,
        question: Question,
        source: str | tuple[int, ...],
        intervention: Intervention,
        task: Task,
    ) -> Hypothesis:
        model = self.model(question.model, task)
        key = ("best", model.hash, source, question.beam, intervention.to_json())
        words = (model, source, question.beam, intervention, task)
        best: Hypothesis = self._run(key, task, _search, *words)
        return best

    def lost(self, question: Question) -> tuple[str, ...]:
        """Characters of the text that the model's vocabulary cannot see."""
        if self.example(question) is not None:
            return ()
        return self.model(question.model).tokenizer.lost(question.text)

    def _run(self, key: Hashable, task: Task, run: Callable[..., Any], *words: Any) -> Any:
        """A run that is remembered, made through the gate if nobody has asked for it before."""

        def made() -> Any:
            with self.gate.place(task):
                task.check()
                return run(*words)

        return self.cache.get(key, made, task)

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
    """How many tokens the longer sentence has, those included that an edit appends.

    Raises:
        ValueError: nothing to read, or more than the app takes.
    """
    tokens = len(model.tokenizer.source_ids(question.text))
    padding = sum(edit.count for edit in intervention if isinstance(edit, Pad))
    target = len(model.tokenizer.target_ids(question.target))
    for name, length in (("text", tokens), ("target", target)):
        if length > LONGEST:
            raise ValueError(
                f"This {name} has {length:,} tokens and the app takes at most {LONGEST}: its "
                "pictures show one sentence. Shorten it, or use transformer-viz trace for long "
                "texts."
            )
    if tokens + padding > LONGEST:
        raise ValueError(
            f"This text has {tokens} tokens and its padding {padding:,}; the app takes at most "
            f"{LONGEST} in all. Take padding away."
        )
    return max(tokens + padding, target, int(1.4 * tokens) + 8)  # as long as decoding may go


def _clean(
    model: Model, question: Question, target: str | list[int], only: tuple[Site, ...] | None
) -> Trace:
    from ..tracing import trace

    return trace(model, question.text, target=target, keep=KEEP, only=only, check=False)


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
        keep=KEEP,
        only=only,
        check=False,
    )


def _search(
    model: Model,
    source: str | tuple[int, ...],
    beam: int,
    intervention: Intervention,
    task: Task,
) -> Hypothesis:
    from ..decode import translate

    return translate(model, source, beam=beam, intervention=intervention, tell=task.step)[0]
