"""From a source to words: greedy, beam search, sampling, or a target that is given."""

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
WIDEST = 1000  # hypotheses of a beam; more would fill the memory


@dataclass(frozen=True)
class Hypothesis:
    """A text that was produced, or given and scored.

    ``ids`` without the start token, with the end token if it was reached (``finished``);
    ``steps`` the natural log-probability of each of them; ``score`` their sum divided by
    ``((5 + length) / 6) ** length_penalty`` (Wu et al. 2016, equation 14, without coverage), so
    that long texts are not beaten by short ones only because they have more factors. A penalty
    of 0 leaves the plain sum.
    """

    ids: tuple[int, ...]
    text: str
    score: float
    steps: tuple[float, ...]
    finished: bool

    @property
    def log_probability(self) -> float:
        """The sum over all steps: how likely the model finds the whole text."""
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
    """Translate one source, or let a GPT-like model go on from it; the best hypothesis first.

    ``source`` is a text or its ids, or a sound for a model that hears (see `hear`), whose words are
    then written down.

    ``beam`` 1 is greedy; a larger one keeps that many hypotheses, and one that ends gives its
    place up, so a search ends with ``beam`` hypotheses and needs no rule when to stop. ``sample``
    draws at random at this temperature (of the output; 0 is greedy) instead, the same words for
    the same ``seed``. ``target`` scores a text instead of searching for one: text gets the end
    token (the first of several), ids are the decoder's input (start token included) and end where
    they end. A GPT-like model appends it to the source, and its hypotheses hold only what is new.

    ``max_tokens`` limits the length; left out, 1.4 tokens for each of the source and 8 more, or
    40 new ones for a GPT-like model; 8 for each second of a sound and 8 more.

    ``on_progress`` is called before each pass of a search with the tokens there are and the most
    there may be. What it raises comes out here, and nothing of the search is left behind.
    ``observer`` is told every pass and every choice (see :func:`decoding_record.record`).
    ``image`` is a picture beside the text, as of `trace`.

    Raises:
        ValueError: the model has no decoder or start token, the input does not fit, or the
            choices exclude each other; says which.
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
    """A search that keeps keys and values; None where a pass that keeps none shows something else.

    Of a text ``alone`` that pass shows what every token looked at, so its steps need no probe:
    under edits that let a cache be kept, rows stay as they are whatever follows.
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
    """The best hypothesis of each line, many lines at a time; the same as one by one.

    Lines of like length share a batch. Where rows cannot share a pass (an edit, a GPT-like
    model) each line runs alone. ``on_progress`` hears how many lines are done.

    Raises:
        ValueError: as :func:`translate`.
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
    """Go on with a text: :func:`translate` for GPT-like models alone.

    Raises:
        ValueError: the model is not decoder-only; or as :func:`translate`.
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
    """What a sum of ``length`` log-probabilities is divided by (Wu et al. 2016, equation 14)."""
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
    """The decoder's input for a given target: that of the tokenizer for a text, ids as given.

    What a model writes before every text of a sound (its language, that it transcribes) stands
    before the pieces, as it would write it itself.
    """
    if heard is None or not isinstance(target, str) or not model.config.get("opening_ids"):
        return target_ids(model, target)
    steps = len(model.config["opening_ids"])
    with without_gradients(model):
        first = Batch(model, heard, None, steps).search(1)[0][0].ids
    start = [] if model.bos_id is None else [model.bos_id]
    return target_ids(model, [*start, *first, *target_pieces(model, target)])


def _forced_ids(model: Model, target: str | Sequence[int], heard: Heard | None = None) -> list[int]:
    """The tokens that a given target scores."""
    ids = written_ids(model, heard, target)
    if model.kind == "encoder-decoder" or (isinstance(target, str) and ids[0] == model.bos_id):
        ids = ids[1:]  # the start token is read, not produced
    if isinstance(target, str) and model.kind == "encoder-decoder" and model.eos_id is not None:
        ids = [*ids, model.eos_id]
    if not ids:
        raise ValueError("The target has a start token and nothing after it; give more tokens.")
    return ids


def ranked(model: Model, source: list[int], found: list[Path], penalty: float) -> list[Hypothesis]:
    """Paths as hypotheses, the best score first."""

    def text(ids: tuple[int, ...]) -> str:
        if model.kind != "decoder-only":
            return target_side(model.tokenizer).decode(ids)
        # read with the prompt before it, so that a space between the two is kept
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
