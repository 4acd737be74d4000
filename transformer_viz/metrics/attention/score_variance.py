"""Variance of q·k, and its softmax with and without division by sqrt(d_k).

Vaswani et al. 2017, section 3.2.1, footnote 4: if the components of q and k are independent with
mean 0 and variance 1, then q·k has mean 0 and variance d_k. This module measures it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ...core.numerics import entropy_bits, softmax
from ...core.trace import Trace
from ...core.trace_parts import Attention
from .map_cells import visible
from .qk_steps import NoProduct, require_product

ROWS = 512  # random queries per width


@dataclass(frozen=True)
class Softness:
    """Softmax statistics of rows of scores; means over rows.

    ``entropy`` is in bits; ``largest`` is the largest weight. ``gradient`` is the Frobenius norm of
    the softmax's Jacobian: the sensitivity of weights to scores.
    """

    entropy: float
    largest: float
    gradient: float


@dataclass(frozen=True)
class Spread:
    """Variance of q·k for one width or head, and the softmax of q·k, plain and scaled."""

    d_k: int
    variance: float
    plain: Softness
    scaled: Softness


@dataclass(frozen=True)
class HeadSpread:
    """Spread of a head on a sentence; ``scale`` is the model's factor of q·k."""

    block: str
    layer: int
    head: int
    scale: float
    spread: Spread


def jacobian_norms(weights: np.ndarray) -> np.ndarray:
    """Return the sensitivity of a softmax to its scores: ``[..., key]`` weights to ``[...]``.

    The Jacobian of a softmax with weights p is diag(p) - p pᵀ; its Frobenius norm is the root of
    sum p² - 2 sum p³ + (sum p²)². It is 0 for a row with all weight on one key.
    """
    square = (weights**2).sum(axis=-1)
    inside = square - 2 * (weights**3).sum(axis=-1) + square**2
    return np.sqrt(np.maximum(inside, 0))


def softness(scores: np.ndarray) -> Softness:
    """Return the means over rows of scores ``[row, key]`` (-inf: masked)."""
    weights = softmax(scores.astype(np.float64))
    return Softness(
        float(entropy_bits(weights).mean()),
        float(weights.max(axis=-1).mean()),
        float(jacobian_norms(weights).mean()),
    )


def random_scores(d_k: int, keys: int, seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """Return q·k of random vectors with independent standard normal components: ``[row, key]``.

    Every row has a separate query and keys, so no vector is used in two rows.
    """
    draw = np.random.default_rng([seed, d_k])
    q = draw.standard_normal((rows, 1, d_k))
    k = draw.standard_normal((rows, keys, d_k))
    return np.asarray((q * k).sum(axis=-1))


@lru_cache(maxsize=256)
def random_spread(d_k: int, keys: int, seed: int = 0, rows: int = ROWS) -> Spread:
    """Return the spread of random vectors of ``d_k`` numbers in rows of ``keys`` keys."""
    return _spread(random_scores(d_k, keys, seed, rows), d_k, d_k**-0.5)


def head_spreads(trace: Trace) -> tuple[HeadSpread, ...]:
    """Return the spread of every head with captured q and k, over unmasked cells.

    Raises:
        NoProduct: (a LookupError) The scores of this model are no products.
    """
    found = tuple(one for attention in trace.attentions for one in _of_layer(trace, attention))
    if not found:
        raise NoProduct("No head of this run has a query and a key that were kept.")
    return found


def _of_layer(trace: Trace, attention: Attention) -> Iterator[HeadSpread]:
    block, layer = attention.site.map, attention.site.layer
    kept = require_product(trace, block, layer, 0)
    assert kept.q is not None and kept.k is not None
    d_k = kept.q.shape[-1]
    scale = d_k**-0.5 if kept.scale is None else kept.scale
    for head in range(len(kept.weights)):
        dots = kept.q[head].astype(np.float64) @ kept.k[head].astype(np.float64).T
        seen = visible(kept, head, trace.intervention)
        rows = seen.any(axis=1)
        spread = _spread(np.where(seen, dots, -np.inf)[rows], d_k, scale)
        yield HeadSpread(
            block, layer, head, scale, replace(spread, variance=float(dots[seen].var()))
        )


def _spread(dots: np.ndarray, d_k: int, scale: float) -> Spread:
    finite = dots[np.isfinite(dots)]
    return Spread(d_k, float(finite.var()), softness(dots), softness(dots * scale))
