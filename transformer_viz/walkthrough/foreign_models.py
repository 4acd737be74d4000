"""Walkthrough of other models than the reference Transformer: from q·k to weights times v.

A stage is included only if its numbers reproduce those of the next one in the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..checkpoints.common.model import Model
from ..core.apply_edits import HeadPlan
from ..core.interventions import Intervention
from ..core.numerics import VERY_LOW
from ..core.sites import Site
from ..core.stages import NO_PRODUCT, PROBLEM, Stage, Walkthrough
from ..core.trace import Trace
from ..core.trace_parts import Attention
from ..inference.model_inputs import Source
from ..inference.tracing import trace
from .arrays import as_float32
from .attention_stages import mix_stage
from .check_site import check_row
from .softmax_stages import exponentials_of

CLOSE = 1e-5  # relative to the largest number


def other_chain(
    model: Model,
    source: Source,
    target: Source | None,
    site: Site,
    row: int,
    intervention: Intervention,
    held: dict[str, Any],
) -> Walkthrough:
    """Return the walkthrough of one head and one row from a captured run of any module.

    Raises:
        LookupError: The run lacks the block, layer, head or row.
    """
    block = replace(site, head=None)
    run = trace(
        model,
        source,
        target,
        intervention=intervention,
        keep=("scores", "qkv"),
        only=[block],
        check=False,
        **held,
    )
    attention = _attention(run, site)
    check_row(site, row, attention.weights.shape[1])
    stages = tuple(_stages(attention, site, row, HeadPlan.at(intervention, site).divisor))
    problem = PROBLEM if any(stage.kind == "score" for stage in stages) else NO_PRODUCT
    return Walkthrough(site, row, attention.query, attention.key, stages, intervention, problem)


def _attention(run: Trace, site: Site) -> Attention:
    if site.map not in run.maps or not 0 <= site.layer < run.layers(site.map):
        raise LookupError(f"This model has no {site}; its maps are {', '.join(run.maps)}.")
    attention = run.block(site.map, site.layer)
    heads = len(attention.weights)
    if site.head is None or not 0 <= site.head < heads:
        raise LookupError(f"{site.map!r} has heads 0 to {heads - 1}; got {site.head}.")
    return attention


def _stages(attention: Attention, site: Site, row: int, temperature: float) -> Iterator[Stage]:
    head = site.head or 0
    weights = attention.weights[head, row]
    q, k = (_of_head(part, attention, head) for part in (attention.q, attention.k))
    scores = None if attention.scores is None else attention.scores[head, row]
    if q is not None and k is not None and len(k) == len(weights) and scores is not None:
        row_scores = scores[: len(weights)]
        yield from _compared(attention, site.block, q[row], k, row_scores, temperature)
    if scores is not None and len(scores) == len(weights):
        yield from _softmax(site.block, scores, weights)
    v = _of_head(attention.v, attention, head)
    if v is not None and len(v) == len(weights):
        out = as_float32(weights.astype(np.float64) @ v)
        yield mix_stage(site.block, weights, as_float32(v), out)


def _of_head(vectors: np.ndarray | None, attention: Attention, head: int) -> np.ndarray | None:
    """Return q, k or v of one head ``[token, width]``; several heads may share theirs."""
    heads = len(attention.weights)
    if vectors is None or vectors.ndim != 3 or heads % len(vectors):
        return None
    return np.asarray(vectors[head // (heads // len(vectors))])


def _compared(
    attention: Attention,
    block: str,
    q: np.ndarray,
    k: np.ndarray,
    scores: np.ndarray,
    temperature: float,
) -> Iterator[Stage]:
    if q.shape != k.shape[1:]:
        return
    product = as_float32(k.astype(np.float64) @ q.astype(np.float64))
    yield Stage(
        "score",
        block,
        {"q": as_float32(q), "k": as_float32(k), "out": product},
        words={"score": "dot"},
    )
    seen = scores > VERY_LOW
    scale = 0.0 if attention.scale is None else attention.scale
    known = _close(product[seen] * (scale / temperature), scores[seen])
    yield Stage(
        "between",
        block,
        {"x": product, "seen": as_float32(seen), "out": as_float32(scores)},
        {"scale": scale if known else 0.0, "temperature": temperature},
        why=tuple("" if visible else "masked" for visible in seen),
    )


def _softmax(block: str, scores: np.ndarray, weights: np.ndarray) -> Iterator[Stage]:
    """Yield the softmax stage if it reproduces the weights."""
    exponentials, most = exponentials_of(scores)
    total = float(exponentials.sum())
    if not total or not _close(exponentials / total, weights):
        return
    arrays = {"x": scores, "exponentials": exponentials, "softmax": weights, "out": weights}
    numbers = {"most": most, "total": total, "head": 1.0}
    present = {name: as_float32(array) for name, array in arrays.items()}
    yield Stage("softmax", block, present, numbers, {"form": "soft"})


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= CLOSE * max(1.0, np.abs(b).max(initial=0.0)))
