"""Model jobs of the labs: plain functions that import architecture layers 1 and 2 when called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.interventions import Intervention, Pad
from ...core.numerics import log_softmax_at
from ...core.sites import Site
from ...core.trace import Trace
from ...core.trace_parts import read_only
from ...i18n import say
from ...metrics.attention.score_variance import HeadSpread, head_spreads
from ..engine import trace_jobs
from ..engine.query import Question

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...inference.experiments.initial_gradients import Beginning

Ids = tuple[int, ...]
#: Source, target up to a word, and the candidates for that word.
HeldWords = tuple[str, str, tuple[str, ...]]


def spreads(
    model: Model, question: Question, picture: Path | None, target: Ids | None
) -> tuple[HeadSpread, ...]:
    """Return the spread of q·k in every head on a sentence; see `score_variance.head_spreads`."""
    held: dict[str, Any] = trace_jobs.held_of(model, question, None, Intervention())
    if target is not None:
        held = {"target": list(target)}
    keep = ("scores", "qkv")
    return head_spreads(
        trace_jobs.traced(model, question, picture, held, Intervention(), None, keep)
    )


def translated(model: Model, text: str, beam: int, changes: str) -> tuple[str, Ids]:
    """Return the model's best generated text under edits (as JSON), and its token ids."""
    from ...inference.generation import translate

    best = translate(model, text, beam=beam, intervention=Intervention.from_json(changes))[0]
    return best.text, best.ids


def watched(
    model: Model,
    text: str | Ids,
    target: Ids | None,
    changes: str,
    keep: tuple[str, ...] = ("weights", "scores"),
) -> Trace:
    """Return the trace of one run on a text, or ids, with a target as the decoder reads it."""
    from ...inference.tracing import trace

    source = text if isinstance(text, str) else list(text)
    return trace(
        model,
        source,
        None if target is None else list(target),
        intervention=Intervention.from_json(changes),
        keep=keep,
        check=False,
    )


def own_run(model: Model, text: str, changes: str) -> tuple[str, Trace, int]:
    """Return the greedy translation under edits, the run on it, and the parameter count."""
    said, ids = translated(model, text, 1, changes)
    words = ids[:-1] if ids and ids[-1] in model.end_ids else ids
    target = (model.bos_id or 0, *words)
    trace = watched(model, text, target, changes, ("weights", "scores", "hidden"))
    return said, trace, model.parameters


def chances(model: Model, text: str, target: Ids, produced: Ids) -> np.ndarray:
    """Return ln p of the given target tokens for a source: float64 ``[row]``."""
    found = watched(model, text, target, Intervention().to_json(), ("weights",))
    assert found.logits is not None
    return read_only(log_softmax_at(found.logits, produced))


@dataclass(frozen=True, eq=False)
class Stream:
    """Sentence of a batch: ``rows`` ``[token + padding, d_model]``, and its number of tokens."""

    rows: np.ndarray
    tokens: int


def streams(model: Model, texts: tuple[str, ...], layer: int) -> tuple[Stream, ...]:
    """Return the residual stream before a layer of the first stack, sentence by sentence.

    Each is filled with masked padding up to the longest one, if the model has padding.
    """
    from ...inference.token_ids import source_ids

    ids = [source_ids(model, text) for text in texts]
    widest = max(map(len, ids))
    stack = "decoder" if model.kind == "decoder-only" else "encoder"
    target = None if model.kind != "encoder-decoder" else (model.bos_id or 0,)
    made = []
    for own in ids:
        fill = widest - len(own) if model.pad_id is not None else 0
        edits = Intervention((Pad(count=fill, masked=True),) if fill else ())
        found = watched(model, tuple(own), target, edits.to_json(), ("hidden",))
        rows = found.hidden(stack)[layer].copy()  # a view would keep the other layers alive
        made.append(Stream(read_only(rows), len(own)))
    return tuple(made)


def held_run(model: Model, text: str, before: str) -> Trace:
    """Return the trace of a source with a fixed start of its translation, all maps in full."""
    from ...inference.token_ids import target_ids

    return watched(
        model, text, tuple(target_ids(model, before)), Intervention().to_json(), ("weights",)
    )


@dataclass(frozen=True, eq=False)
class WithoutHeads:
    """Log-probabilities of fixed words with and without each head.

    Attributes:
        clean: ln p without ablation, float64 ``[sentence, word]``.
        each: ln p with one head ablated, float64 ``[head, sentence, word]``.
        sites: The heads.
        seconds: Duration of all runs.
    """

    clean: np.ndarray
    each: np.ndarray
    sites: tuple[Site, ...]
    seconds: float


def without_heads(
    model: Model, rows: tuple[HeldWords, ...], most: int, on_progress: Callable[[int, int], None]
) -> WithoutHeads:
    """Ablate every head alone and return ln p of the fixed words; see `held_pronouns`.

    Raises:
        ValueError: The model has more than ``most`` heads.
    """
    from ...inference.experiments import held_pronouns as held

    began = perf_counter()
    asked = [held.Held(*row) for row in rows]
    clean = held.log_probabilities(model, asked)
    sites = held.heads(model, asked[0])
    if len(sites) > most:
        raise ValueError(
            say(
                "This model has {count} heads, and each needs a run of its own; choose a model "
                "with at most {most}.",
                count=len(sites),
                most=most,
            )
        )
    each = held.without_each(model, asked, sites, on_progress)
    return WithoutHeads(clean, each, sites, perf_counter() - began)


def without_all(model: Model, rows: tuple[HeldWords, ...], sites: tuple[Site, ...]) -> np.ndarray:
    """Return ln p of the fixed words with some heads ablated together: float64 [sentence, word]."""
    from ...inference.experiments import held_pronouns as held

    return held.log_probabilities(model, [held.Held(*row) for row in rows], held.off(sites))


def began(
    model: Model, texts: tuple[str, ...], layers: int, seeds: tuple[int, ...]
) -> tuple[Beginning, Beginning]:
    """Measure new models of this model's shape, pre-norm and post-norm, on one batch.

    The targets are this model's greedy translations of the texts.
    """
    from ...inference.experiments.initial_gradients import beginning
    from ...inference.generation import translate_lines
    from ...inference.token_ids import source_ids
    from ...model import ModelConfig

    said = translate_lines(model, list(texts), 1)
    pairs = [
        (tuple(source_ids(model, text)), one.ids) for text, one in zip(texts, said, strict=True)
    ]
    words = {f.name: model.config[f.name] for f in fields(ModelConfig) if f.name in model.config}
    config = ModelConfig.from_dict(words)
    pre, post = (beginning(config, norm, layers, pairs, seeds) for norm in ("pre", "post"))
    return pre, post
