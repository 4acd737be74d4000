"""Engine between pages and models: loads each model once, limits runs, caches results.

Nothing here imports torch before a model is needed. The stored example of a model answers the
first question of a session, so maps are shown before torch is imported.
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

WHOLE = 8 * MEGABYTE  # bytes; below this size the matrices of all heads are kept
QUERIES_AND_KEYS = 200 * MEGABYTE  # bytes; queries and keys of all layers of a long text, likewise


class Engine:
    """Models and cached runs, shared by all users of a server.

    A run takes a `Task` if a page waits for it. It reports its progress there, and stops without
    a result if the task is abandoned.
    """

    def __init__(self, first: str, further: str = "", limit: int = 256 * MEGABYTE) -> None:
        self.shelf = Shelf(first, further)
        self.models = Models(self.shelf)
        self.shares = ModelShares()
        self.cache = Cache(limit)
        self.gate = RunSlots(settings.FORWARDS.number, most=lambda: settings.RUN_SECONDS.number)
        self.shared = SharedSearches(self.gate)

    def prepare(self, name: str) -> None:
        """Schedule the loading of a model, after the browser has painted its first response."""
        self.models.prepare(name)

    def ready(self, name: str) -> bool:
        """Return True if a model is loaded."""
        return self.models.ready(name)

    def model(self, name: str, task: Task | None = None) -> Model:
        """Return the model; wait until it is loaded.

        Raises:
            ValueError: The checkpoint is missing or unusable, or this session has loaded too
                many. The message gives the reason and a remedy.
            Abandoned: The task was abandoned; loading goes on for the next user.
        """
        task = task or Task()
        self.shares.require(task.visitor, name)
        return self.models.get(name, task)

    def inspection(self, name: str, task: Task | None = None, *, proved: bool = True) -> Inspection:
        """Return the contents of a checkpoint, with a capture check on a run if ``proved``.

        Raises:
            ValueError: The checkpoint is missing or unusable; the message gives a remedy.
            Abandoned: The task was abandoned.
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
        """Return ``run(model, *words)``, computed once through the gate and cached.

        Args:
            name: Name of the model.
            run: A plain function that does not depend on a session.
            words: Further arguments; with the model they determine the result.
            task: Task of the page that waits.
            stepped: Pass ``on_progress`` to the run.
            long: True if the run may take many passes; implied by ``stepped``.

        Raises:
            ValueError: The model or the run refused; the message gives the reason.
            Abandoned: The task was abandoned.
        """
        task = task or Task()
        model = self.model(name, task)
        key = (run.__module__, run.__qualname__, ref(model), *words)
        made = partial(run, on_progress=task.step) if stepped else run
        return self._run(key, task, made, model, *words, long=long or stepped)

    def kind(self, name: str) -> Kind | None:
        """Return inputs and outputs of a model; None if only the loaded model determines them."""
        if self.ready(name):
            return of_model(self.model(name))
        shelved = self.shelf.get(name)
        return None if shelved is None else shelved.kind

    def first(self, name: str) -> dict[str, Any]:
        """Return initial inputs of a model, where they differ from the general default text."""
        shelved, kind = self.shelf.get(name), self.kind(name)
        if shelved is None or kind is None or kind.takes != "text":
            return {}
        if kind.first:
            return {"text": kind.first}
        asked = None if kind.translates else shelved.asked
        return {} if asked is None else {"text": asked.text, "masked": asked.masked}

    def example(self, question: Question, detail: DetailRequest | None = None) -> Answer | None:
        """Return the stored run if it answers this question; it has no queries and keys."""
        if detail is not None and detail.vectors:
            return None
        shelved = self.shelf[question.model]
        trace, kind = shelved.example, shelved.kind
        if trace is None or kind is None:
            return None
        beam = question.beam if kind.translates else Question.beam  # only translators search
        if replace(question, beam=beam) != shelved.asked:
            return None
        if trace.target is None or trace.produced is None:
            return Answer(trace)
        said = trace.produced.pieces[:-1]  # the last token ends the sentence
        return Answer(trace, joined(said, [False] * len(said)))

    def opening(self, name: str, block: str) -> dict[str, int]:
        """Return layer and head shown first: the stored run's head of lowest entropy."""
        shelved = self.shelf.get(name)
        if shelved is None or shelved.example is None or block not in shelved.example.maps:
            return {}
        heads, (stack, kind) = shelved.example.heads, MAPS[block]
        mine = heads[(heads["stack"] == stack) & (heads["block"] == kind)]
        best = mine.loc[mine["entropy"].idxmin()]
        return {"layer": int(best["layer"]), "head": int(best["head"])}

    def clean(self, question: Question, detail: DetailRequest, task: Task | None = None) -> Answer:
        """Return the run without edits, with the details that the page shows.

        Raises:
            ValueError: The model cannot read the text; the message gives the reason.
            Abandoned: The task was abandoned.
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
        """Return the typed or searched target, as decoder input and as text."""
        if question.target:
            return {"target": question.target}, question.target
        best = self._best(question, question.text, Intervention(), task)
        ids = best.ids[:-1] if best.finished else best.ids
        if model.max_tokens is not None:  # the last token of a full target is never read
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
        """Return a run with edits, with the target tokens of the clean one.

        Raises:
            ValueError: An edit matches no site of this model; the message lists the sites.
            Abandoned: The task was abandoned.
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
        """Return True if the run with edits of `changed` is cached."""
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
        """Return a classifier's run with d(logit of the chosen class) / d(weights) of one layer.

        Raises:
            ValueError: The class does not exist, or an edit matches no site.
            Abandoned: The task was abandoned.
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
        """Return the picture of a question as the model sees it: uint8 ``[height, width, 3]``.

        Raises:
            ValueError: There is no picture, or it cannot be read.
        """
        path = self._picture(question)
        if path is not None and not self.ready(question.model) and self.example(question):
            return trace_jobs.as_it_is(path)  # a stored picture has the model's input size
        model = self.model(question.model)
        if model.eyes is not None:
            return trace_jobs.seen(model.eyes, question.file).shown
        assert model.image is not None
        return model.image.shown(trace_jobs.source_of(model, question, path))

    def _picture(self, question: Question) -> Path | None:
        return self.shelf[question.model].pictures.get(question.picture)

    def free(self, question: Question, intervention: Intervention, task: Task | None = None) -> str:
        """Return the text that the model generates if no target is held fixed."""
        return self._best(question, question.text, intervention, task or Task()).text

    def free_ids(
        self,
        question: Question,
        ids: Sequence[int],
        intervention: Intervention,
        task: Task | None = None,
    ) -> str:
        """Return the text that the model generates from these ids in place of the sentence's.

        Raises:
            ValueError: Ids unknown to the model, or more than it reads.
            Abandoned: The task was abandoned.
        """
        return self._best(question, tuple(ids), intervention, task or Task()).text

    def reordered(self, question: Question, seed: int) -> tuple[int, ...]:
        """Return the ids of the sentence with its words in another order, determined by the seed.

        Special tokens and final punctuation keep their positions.
        """
        tokenizer = self._tokenizer(question.model)
        kind = self.kind(question.model)
        goes_on = kind is not None and kind.continues
        read = tokenizer.prompt_ids if goes_on else tokenizer.source_ids
        return another_order(tokenizer.tokens(read(question.text)), seed)

    def places_of(self, name: str, text: str, word: str) -> tuple[int, ...]:
        """Return the positions of the tokens of a word's first occurrence in a text."""
        tokenizer = self._tokenizer(name)
        tokens = tokenizer.tokens(tokenizer.source_ids(text))
        for number in dict.fromkeys(tokens.words):
            places = tuple(p for p, owner in enumerate(tokens.words) if owner == number)
            if "".join(tokens.labels[place] for place in places) == word:
                return places
        return ()

    def text_of(self, name: str, ids: Sequence[int]) -> str:
        """Return the text of token ids, without special tokens."""
        return self._tokenizer(name).decode(ids)

    def pieces(self, name: str) -> Sequence[str]:
        """Return the display names of all output tokens, ``[id]``; seldom needs the model."""
        return Names(target_side(self._tokenizer(name)))

    def _tokenizer(self, name: str) -> Tokenizer:
        """Return the bundled vocabulary, or the loaded model's tokenizer."""
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
        """Return the characters of the text that the vocabulary lacks."""
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
        """Return a cached run, or run it through the gate; a ``shared`` run enters it by itself."""

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
            finally:  # an abandoned run leaves as much memory
                after_a_run(size, long)

        return self.cache.get(key, made, task)

    def _kept(
        self, model: Model, question: Question, detail: DetailRequest, intervention: Intervention
    ) -> tuple[tuple[Site, ...] | None, tuple[str, ...]]:
        """Return the sites whose matrices are kept (None: all, if small), and the kinds of data."""
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
