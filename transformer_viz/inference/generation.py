"""Decoding: greedy, beam search, sampling, or scoring of a given target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..checkpoints.common.model import Model
from ..core.interventions import Intervention
from ..core.renamed import accept_old_keywords
from ..preprocessing.tokenizers import target_side
from .decoding.key_value_cache import (
    CacheError,
    forget,
    forget_steps,
    known_to_read_on,
    may_keep,
    reads_on,
    shows_steps,
)
from .decoding.watched_calls import without_gradients
from .donors import LentPasses
from .hearing import Heard, hear
from .search import Batch, Path, Tell, Witness, edited, limit_of
from .seeing import set_beside
from .token_ids import source_ids, target_ids, target_pieces

#: Vaswani et al. 2017, section 6.1, take 0.6; on our validation pairs 1.0 gave a little more BLEU.
LENGTH_PENALTY = 1.0
WIDEST = 1000  # hypotheses per beam; more would fill the memory


@dataclass(frozen=True)
class Hypothesis:
    """Generated text, or a given text with its score.

    Attributes:
        ids: Ids without the start token, with the end token if it was reached.
        text: Decoded text.
        score: Sum of ``steps`` divided by ``((5 + length) / 6) ** length_penalty`` (Wu et al. 2016,
            equation 14, without coverage), so that long texts do not lose to short ones only
            because they have more factors. A penalty of 0 leaves the plain sum.
        steps: Natural log-probability of each id.
        finished: True if the end token was reached.
    """

    ids: tuple[int, ...]
    text: str
    score: float
    steps: tuple[float, ...]
    finished: bool

    @property
    def log_probability(self) -> float:
        """Sum over all steps: the log-probability of the whole text."""
        return sum(self.steps)


@accept_old_keywords(tell="on_progress", witness="observer")
def translate(
    model: Model,
    source: Any,
    beam: int = 1,
    sample: float | None = None,
    intervention: Intervention | None = None,
    *,
    max_tokens: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
    seed: int = 0,
    target: str | Sequence[int] | None = None,
    on_progress: Tell | None = None,
    observer: Witness | None = None,
    image: Any = None,
) -> list[Hypothesis]:
    """Translate one source, or continue it with a GPT-like model; return the best hypothesis first.

    Args:
        model: Model with a decoder.
        source: Text or ids, or a sound for an audio model (see `hear`), which is transcribed.
        beam: 1 is greedy. A larger beam keeps that many hypotheses; a finished one frees its place.
            So a search ends with ``beam`` hypotheses and needs no stopping rule.
        sample: Temperature of random sampling (0 is greedy); reproducible with ``seed``.
        intervention: Edits of the run.
        max_tokens: Maximum length. The default is 1.4 tokens per source token plus 8, 40 new tokens
            for a GPT-like model, or 8 per second of a sound plus 8.
        length_penalty: See `Hypothesis`.
        seed: Seed of the sampling.
        target: Text to score instead of a search. A text gets the end token (the first of several).
            Ids are the decoder's input (start token included) and end where they end. A GPT-like
            model appends it to the source, and its hypotheses hold only the new part.
        on_progress: Called before each pass of a search with the number of tokens so far and at
            most. Its exceptions propagate, and nothing of the search remains.
        observer: Receives every pass and every choice (see :func:`decoding_record.record`).
        image: Picture beside the text, as in `trace`.

    Raises:
        ValueError: The model has no decoder or start token, the input does not fit, or the options
            exclude each other.
    """
    check(model, beam, sample, max_tokens)
    heard = hear(model, source, intervention) if model.takes == "audio" else None
    ids, beside = ([], None) if heard is not None else set_beside(model, source, image)
    given = heard or ids
    watched = None if observer is None else observer.watched
    started = partial(Batch, model, heard or [ids], intervention, max_tokens)

    def search(batch: Batch) -> list[Path]:
        return [batch.sample(sample, seed)] if sample else batch.search(beam)[0]

    with without_gradients(model, on_progress, observer):
        keep = target is None and beside is None and may_keep(intervention)
        keep = keep and (observer is None or shows_steps(model))
        trial = (
            None
            if on_progress is None
            else partial(on_progress, 0, limit_of(model, heard or len(ids), max_tokens))
        )
        if keep and reads_on(model, ids if heard is None else heard.features, trial):
            pass_of = partial(edited, model, given, intervention)
            found = _read_on(pass_of, started, search, on_progress, observer, alone=beam == 1)
            if found is not None:
                return ranked(model, ids, found, length_penalty)
            if observer is not None:
                observer.begin()
        with edited(model, given, intervention, watched) as run:
            lent = run if isinstance(run, LentPasses) else None
            if observer is not None:
                observer.watch(run.capture if isinstance(run, LentPasses) else run)
            batch = started(on_progress, observer, lent)
            batch.seen = None if beside is None else beside.seen
            if target is not None:
                found = [batch.score(_forced_ids(model, target, heard))]
            else:
                found = search(batch)
    return ranked(model, ids, found, length_penalty)


def _read_on(
    pass_of: Callable[..., AbstractContextManager[Any]],
    started: Callable[..., Batch],
    search: Callable[[Batch], list[Path]],
    on_progress: Tell | None,
    observer: Witness | None,
    *,
    alone: bool,
) -> list[Path] | None:
    """Search with a key-value cache; None if a pass without cache gives another result.

    For a single text (``alone``), that pass captures all attention, so the steps need no probe:
    edits that allow a cache leave earlier rows unchanged.
    """
    watched = None if observer is None else observer.watched
    with pass_of(None if alone else watched) as run:
        if observer is not None:
            observer.watch(None if alone else run)
        batch = started(on_progress, observer, keep=True)
        try:
            found = search(batch)
        except CacheError:
            forget(batch.model)
            return None
        if observer is None:
            return found if batch.confirms([found]) else None
        if not alone and known_to_read_on(batch.model):
            return found
    longest = max(found, key=lambda path: len(path.ids))
    others = [path for path in found if path is not longest]
    if others:
        with pass_of(None):
            if not started().gives(others):
                return None
    with pass_of(watched) as run:
        if not started().gives([longest]):
            return None
        observer.watch(run)
        if observer.reviewed(longest):
            return found
    forget_steps(batch.model)
    return None


def translate_lines(
    model: Model,
    lines: Sequence[str],
    beam: int = 4,
    batch: int = 32,
    *,
    length_penalty: float = LENGTH_PENALTY,
    intervention: Intervention | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """Return the best hypothesis of each line, decoding lines in batches.

    Results equal those of single lines. Lines of similar length share a batch. If rows cannot share
    a pass (an edit, a GPT-like model), each line runs alone. ``on_progress`` is called with the
    number of lines done.

    Raises:
        ValueError: See :func:`translate`.
    """
    check(model, beam, None, None)
    if model.takes == "audio":
        raise ValueError(f"{model.name} hears sounds and reads no lines; give translate a sound.")
    if intervention or model.kind == "decoder-only":
        batch = 1
    sources = [source_ids(model, line) for line in lines]
    order = sorted(range(len(lines)), key=lambda i: len(sources[i]))
    keep = bool(lines) and may_keep(intervention) and reads_on(model, sources[order[-1]])
    best: dict[int, Hypothesis] = {}
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        rows = [sources[i] for i in chosen]
        with without_gradients(model, on_progress), edited(model, rows[0], intervention) as run:
            lent = run if isinstance(run, LentPasses) else None
            searched = Batch(model, rows, intervention, None, lent=lent, keep=keep)
            try:
                found = searched.search(beam)
                keep = keep and searched.confirms(found)
            except CacheError:
                forget(model)
                found, keep = [], False
            if searched.reading is not None and not keep:
                found = Batch(model, rows, intervention, None, lent=lent).search(beam)
        for i, paths in zip(chosen, found, strict=True):
            best[i] = ranked(model, sources[i], paths, length_penalty)[0]
        if on_progress is not None:
            on_progress(len(best))
    return [best[i] for i in range(len(lines))]


def generate(
    model: Model,
    source: str | Sequence[int],
    beam: int = 1,
    sample: float | None = None,
    intervention: Intervention | None = None,
    *,
    max_tokens: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
    seed: int = 0,
    on_progress: Tell | None = None,
) -> list[Hypothesis]:
    """Continue a text; :func:`translate` for GPT-like models only.

    Raises:
        ValueError: The model is not decoder-only; see also :func:`translate`.
    """
    if model.kind != "decoder-only":
        raise ValueError(
            f"{model.name} is {model.kind}; only a decoder-only model goes on with a text. "
            "Use translate for a model with encoder and decoder."
        )
    return translate(
        model,
        source,
        beam,
        sample,
        intervention,
        max_tokens=max_tokens,
        length_penalty=length_penalty,
        seed=seed,
        on_progress=on_progress,
    )


def length_norm(length: int, penalty: float) -> float:
    """Return the divisor of a sum of ``length`` log-probabilities (Wu et al. 2016, eq. 14)."""
    return float(((5 + length) / 6) ** penalty)


def check(model: Model, beam: int, sample: float | None, max_tokens: int | None) -> None:
    if model.kind == "encoder-only":
        raise ValueError(f"{model.name} has no decoder, so it produces no text; trace it instead.")
    if model.gives != "words":
        raise ValueError(
            f"{model.name} gives {model.gives} and no words, so it produces no text; trace it "
            "instead."
        )
    if model.kind == "encoder-decoder" and model.bos_id is None:
        raise ValueError(f"{model.name} names no start token; load it with bos_id=.")
    if beam < 1:
        raise ValueError(f"A beam holds at least 1 hypothesis; got beam={beam}.")
    if beam > WIDEST:
        raise ValueError(f"A beam holds at most {WIDEST} hypotheses; got beam={beam}.")
    if sample is not None and (beam > 1 or not 0 <= sample < float("inf")):
        raise ValueError(
            f"sample is a temperature from 0 and goes without a beam; got sample={sample}, "
            f"beam={beam}. Leave one of them out."
        )
    if max_tokens is not None and max_tokens < 1:
        raise ValueError(f"max_tokens is a number from 1; got {max_tokens}.")


def written_ids(model: Model, heard: Heard | None, target: str | Sequence[int]) -> list[int]:
    """Return the decoder's input for a given target: encoded text, or the ids unchanged.

    Tokens that a model generates before every transcript (its language, the task) are prepended.
    """
    if heard is None or not isinstance(target, str) or not model.config.get("opening_ids"):
        return target_ids(model, target)
    steps = len(model.config["opening_ids"])
    with without_gradients(model):
        first = Batch(model, heard, None, steps).search(1)[0][0].ids
    start = [] if model.bos_id is None else [model.bos_id]
    return target_ids(model, [*start, *first, *target_pieces(model, target)])


def _forced_ids(model: Model, target: str | Sequence[int], heard: Heard | None = None) -> list[int]:
    """Return the tokens that a given target scores."""
    ids = written_ids(model, heard, target)
    if model.kind == "encoder-decoder" or (isinstance(target, str) and ids[0] == model.bos_id):
        ids = ids[1:]  # the start token is input, not output
    if isinstance(target, str) and model.kind == "encoder-decoder" and model.eos_id is not None:
        ids = [*ids, model.eos_id]
    if not ids:
        raise ValueError("The target has a start token and nothing after it; give more tokens.")
    return ids


def ranked(model: Model, source: list[int], found: list[Path], penalty: float) -> list[Hypothesis]:
    """Return paths as hypotheses, the best score first."""

    def text(ids: tuple[int, ...]) -> str:
        if model.kind != "decoder-only":
            return target_side(model.tokenizer).decode(ids)
        # decoded with the prompt, so that a space between the two is kept
        whole, start = model.tokenizer.decode([*source, *ids]), model.tokenizer.decode(source)
        return whole[len(start) :] if whole.startswith(start) else model.tokenizer.decode(ids)

    made = [
        Hypothesis(
            ids=path.ids,
            text=text(path.ids),
            score=path.total / length_norm(len(path.ids), penalty),
            steps=path.steps,
            finished=path.ids[-1] in model.end_ids,
        )
        for path in found
    ]
    return sorted(made, key=lambda hypothesis: hypothesis.score, reverse=True)
