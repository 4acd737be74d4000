"""Between pages and models: loads them once, runs them a few at a time, remembers what was run.

Nothing here imports torch before a model is needed. The stored example of a model answers the
first question of a visit, so a picture stands before torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ... import settings
from ...core.interventions import Intervention
from ...core.sites import MAPS, Site
from ...core.trace import Trace
from ...i18n import spoken_language
from ...preprocessing.token_names import Names, another_order
from ...preprocessing.tokenizers import Tokenizer, target_side
from ..counts.server_counts import counted
from . import trace_jobs
from .memory import after_a_run
from .model_catalog import Shelf, joined
from .model_kind import Kind, of_model
from .model_loader import Models
from .query import Answer, DetailRequest, Question
from .task import Abandoned, Task
from .trace_cache import MEGABYTE, Cache, size_of
from .turns.model_shares import ModelShares
from .turns.run_slots import RunSlots
from .turns.shared_searches import SharedSearches

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...inference.generation import Hypothesis
    from ...inference.inspection import Inspection

WHOLE = 8 * MEGABYTE  # matrices of all heads are kept while they are smaller than this
QUERIES_AND_KEYS = 200 * MEGABYTE  # those of all layers of a long text, likewise


class Engine:
    """The models, and the runs that were asked for. One serves all visitors of a server.

    A run takes a `Task` where somebody waits for it: it says how far it is, and ends when it is
    abandoned, which leaves nothing behind.
    """

    def __init__(self, first: str, further: str = "", limit: int = 256 * MEGABYTE) -> None:
        self.shelf = Shelf(first, further)
        self.models = Models(self.shelf)
        self.shares = ModelShares()
        self.cache = Cache(limit)
        self.gate = RunSlots(settings.FORWARDS.number, most=lambda: settings.RUN_SECONDS.number)
        self.shared = SharedSearches(self.gate)

    def prepare(self, name: str) -> None:
        """Begin to load a model a moment later, when the browser has painted what it was sent."""
        self.models.prepare(name)

    def ready(self, name: str) -> bool:
        """Whether a model is loaded."""
        return self.models.ready(name)

    def model(self, name: str, task: Task | None = None) -> Model:
        """The model, waited for if need be.

        Raises:
            ValueError: the checkpoint is missing or cannot be used, or this visit has loaded too
                many; says why and what to do.
            Abandoned: the task was given up; the model goes on loading for the next visitor.
        """
        task = task or Task()
        self.shares.require(task.visitor, name)
        return self.models.get(name, task)

    def inspection(self, name: str, task: Task | None = None, *, proved: bool = True) -> Inspection:
        """Return what a checkpoint holds, and whether a run is seen right (``proved``).

        Raises:
            ValueError: the checkpoint is missing or cannot be used; says why and what to do.
            Abandoned: the task was given up.
        """
        model = self.model(name, task := task or Task())
        key = ("inspection", ref(model), spoken_language(), proved)
        run = partial(_inspected, on_progress=task.step, proved=proved)
        found: Inspection = self._run(key, task, run, model, long=True)
        return found

    def ask(
        self,
        name: str,
        run: Callable[..., Any],
        *words: Hashable,
        task: Task | None = None,
        stepped: bool = False,
        long: bool = False,
    ) -> Any:
        """What ``run(model, *words)`` gives: made once, through the gate, and remembered.

        Args:
            name: of the model.
            run: a plain function, which knows nothing of any visit.
            words: all that the answer depends on besides the model.
            task: somebody waits for it.
            stepped: whether the run is also given ``on_progress``, to say how far it is.
            long: whether it may take many passes; one that is stepped does.

        Raises:
            ValueError: what the model or the run refuses; says why and what to do.
            Abandoned: the task was given up.
        """
        task = task or Task()
        model = self.model(name, task)
        key = (run.__module__, run.__qualname__, ref(model), *words)
        made = partial(run, on_progress=task.step) if stepped else run
        return self._run(key, task, made, model, *words, long=long or stepped)

    def kind(self, name: str) -> Kind | None:
        """What a model takes and gives; None where only the loaded model can say."""
        if self.ready(name):
            return of_model(self.model(name))
        shelved = self.shelf.get(name)
        return None if shelved is None else shelved.kind

    def first(self, name: str) -> dict[str, Any]:
        """What the boxes of a model hold at first, where that is not the text of all others."""
        shelved, kind = self.shelf.get(name), self.kind(name)
        if shelved is None or kind is None or kind.takes != "text":
            return {}
        if kind.first:
            return {"text": kind.first}
        asked = None if kind.translates else shelved.asked
        return {} if asked is None else {"text": asked.text, "masked": asked.masked}

    def example(self, question: Question, detail: DetailRequest | None = None) -> Answer | None:
        """The stored run, where it answers this very question; it holds no queries and keys."""
        if detail is not None and detail.vectors:
            return None
        shelved = self.shelf[question.model]
        trace, kind = shelved.example, shelved.kind
        if trace is None or kind is None:
            return None
        beam = question.beam if kind.translates else Question.beam  # it searches for a target
        if replace(question, beam=beam) != shelved.asked:
            return None
        if trace.target is None or trace.produced is None:
            return Answer(trace)
        said = trace.produced.pieces[:-1]  # the last one ends the sentence
        return Answer(trace, joined(said, [False] * len(said)))

    def opening(self, name: str, block: str) -> dict[str, int]:
        """The head that a visit without a link begins with: the stored run's most decided one."""
        shelved = self.shelf.get(name)
        if shelved is None or shelved.example is None or block not in shelved.example.maps:
            return {}
        heads, (stack, kind) = shelved.example.heads, MAPS[block]
        mine = heads[(heads["stack"] == stack) & (heads["block"] == kind)]
        best = mine.loc[mine["entropy"].idxmin()]
        return {"layer": int(best["layer"]), "head": int(best["head"])}

    def clean(self, question: Question, detail: DetailRequest, task: Task | None = None) -> Answer:
        """The run without edits, with what the screen shows of it.

        Raises:
            ValueError: a text that the model cannot take; says why.
            Abandoned: the task was given up.
        """
        stored = self.example(question, detail)
        if stored is not None:
            return stored
        task = task or Task()
        model = self.model(question.model, task)
        kept = self._kept(model, question, detail, Intervention())
        held, text = trace_jobs.held_of(model, question, None, Intervention()), ""
        if of_model(model).translates and model.takes != "vectors":
            held, text = self._target(model, question, task)
        key = ("clean", ref(model), question, kept)
        words = (model, question, self._picture(question), held, Intervention(), *kept)
        run = self._watching(task)
        return Answer(self._run(key, task, run, *words), text)

    def _target(self, model: Model, question: Question, task: Task) -> tuple[trace_jobs.Held, str]:
        """The target that is typed, or else searched for: as the decoder reads it, and as text."""
        if question.target:
            return {"target": question.target}, question.target
        best = self._best(question, question.text, Intervention(), task)
        ids = best.ids[:-1] if best.finished else best.ids
        if model.max_tokens is not None:  # the last word of a full target is never read
            ids = ids[: model.max_tokens - 1]
        return {"target": [model.bos_id, *ids]}, best.text

    def changed(
        self,
        question: Question,
        answer: Answer,
        intervention: Intervention,
        detail: DetailRequest,
        task: Task | None = None,
    ) -> Trace:
        """A run with edits, asked about the same target words as the clean one.

        Raises:
            ValueError: an edit that fits no place of this model; says which there are.
            Abandoned: the task was given up.
        """
        task = task or Task()
        model = self.model(question.model, task)
        kept = self._kept(model, question, detail, intervention)
        key = ("changed", ref(model), question, intervention.to_json(), kept)
        held = trace_jobs.held_of(model, question, answer.trace, intervention)
        words = (model, question, self._picture(question), held, intervention, *kept)
        trace: Trace = self._run(key, task, self._watching(task), *words)
        return trace

    def _watching(self, task: Task) -> Callable[..., Trace]:
        return partial(trace_jobs.traced, on_progress=task.step, known=self.shared.known)

    def has_changed(
        self, question: Question, intervention: Intervention, detail: DetailRequest
    ) -> bool:
        """Whether a run with edits is remembered, so that `changed` gives it at once."""
        model = self.model(question.model)
        kept = self._kept(model, question, detail, intervention)
        return ("changed", ref(model), question, intervention.to_json(), kept) in self.cache

    def gradients(
        self,
        question: Question,
        chosen: int,
        intervention: Intervention,
        detail: DetailRequest,
        task: Task | None = None,
    ) -> Trace:
        """A run of a classifier with d(logit of the chosen class) / d(weights) of one layer.

        Raises:
            ValueError: a class that is not there, or an edit that fits no place.
            Abandoned: the task was given up.
        """
        task = task or Task()
        model = self.model(question.model, task)
        only = detail.sites[:1]
        key = ("gradients", ref(model), question, chosen, intervention.to_json(), only)
        held, keep = {"produced": [chosen]}, ("weights", "gradients")
        words = (model, question, self._picture(question), held, intervention, only, keep)
        trace: Trace = self._run(key, task, trace_jobs.traced, *words)
        return trace

    def picture(self, question: Question) -> np.ndarray:
        """The picture of a question as the model sees it: uint8 ``[height, width, 3]``.

        Raises:
            ValueError: no picture, or one that cannot be read.
        """
        path = self._picture(question)
        if path is not None and not self.ready(question.model) and self.example(question):
            return trace_jobs.as_it_is(path)  # a stored picture has the model's own size
        model = self.model(question.model)
        if model.eyes is not None:
            return trace_jobs.seen(model.eyes, question.file).shown
        assert model.image is not None
        return model.image.shown(trace_jobs.source_of(model, question, path))

    def _picture(self, question: Question) -> Path | None:
        return self.shelf[question.model].pictures.get(question.picture)

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
        kind = self.kind(question.model)
        goes_on = kind is not None and kind.continues
        read = tokenizer.prompt_ids if goes_on else tokenizer.source_ids
        return another_order(tokenizer.tokens(read(question.text)), seed)

    def places_of(self, name: str, text: str, word: str) -> tuple[int, ...]:
        """The numbers of the tokens that make a word of a text, where it stands there first."""
        tokenizer = self._tokenizer(name)
        tokens = tokenizer.tokens(tokenizer.source_ids(text))
        for number in dict.fromkeys(tokens.words):
            places = tuple(p for p, owner in enumerate(tokens.words) if owner == number)
            if "".join(tokens.labels[place] for place in places) == word:
                return places
        return ()

    def text_of(self, name: str, ids: Sequence[int]) -> str:
        """The text that tokens make; special tokens are left out."""
        return self._tokenizer(name).decode(ids)

    def pieces(self, name: str) -> Sequence[str]:
        """What every token that a model writes is called, ``[id]``; seldom needs the model."""
        return Names(target_side(self._tokenizer(name)))

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
        asked = (question.model, source, question.file, question.picture, question.beam)
        key = ("best", ref(model), asked, intervention.to_json())
        given = trace_jobs.beside(model, question, source)
        if model.takes == "audio":
            given = trace_jobs.source_of(model, question)
        words = (model, given, question.beam, intervention, task)
        shared = trace_jobs.may_share(model, given, intervention)
        run = self.shared.search if shared else trace_jobs.search
        best: Hypothesis = self._run(key, task, run, *words, long=True, shared=shared)
        return best

    def lost(self, question: Question) -> tuple[str, ...]:
        """Characters of the text that the model's vocabulary cannot see."""
        if not question.text or self.example(question) is not None:
            return ()
        return self.model(question.model).tokenizer.lost(question.text + question.second)

    def _run(
        self,
        key: Hashable,
        task: Task,
        run: Callable[..., Any],
        *words: Any,
        long: bool = False,
        shared: bool = False,
    ) -> Any:
        """A run that is remembered, made through the gate if nobody asked for it before; a
        ``shared`` one goes there itself."""

        def made() -> Any:
            place = nullcontext() if shared else self.gate.place(task, long)
            size = 0
            try:
                with counted(run, Abandoned) as told, place:
                    task.check()
                    told.began()
                    value = run(*words)  # a function of trace_jobs, search_jobs or others of *_jobs
                size = size_of(value)
                return value
            except Exception as error:
                self.models.leave_full_card(error, *words[:1])
                raise
            finally:  # one that was given up leaves as much
                after_a_run(size, long)

        return self.cache.get(key, made, task)

    def _kept(
        self, model: Model, question: Question, detail: DetailRequest, intervention: Intervention
    ) -> tuple[tuple[Site, ...] | None, tuple[str, ...]]:
        """Of which layers a run keeps the matrices (None: all, while they are small), and what."""
        tokens = trace_jobs.length(model, question, intervention, detail.long)
        layers = model.size("encoder_layers") + model.size("decoder_layers")
        if trace_jobs.is_long(model, question):
            few = 2 * layers * model.size("d_model") * tokens * 4 <= QUERIES_AND_KEYS
            return (None if few else tuple(sorted(detail.sites))), trace_jobs.LONG
        if detail.vectors:
            return detail.sites[:1], (*trace_jobs.KEEP, "qkv")
        few = 3 * layers * model.size("heads") * tokens**2 * 4 <= WHOLE
        return (None if few else tuple(sorted(detail.sites))), trace_jobs.KEEP


def _inspected(model: Model, on_progress: Callable[[int, int], None], proved: bool) -> Inspection:
    from ...inference.inspection import inspect

    return inspect(model, check=None if proved else False, on_progress=on_progress)
