"""Attention weight as a function of the distance between tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Reach:
    """Attention by distance.

    Attributes:
        steps: Distances in tokens, from 0, ``[distance]``.
        strength: Mean weight of a link of that length, ``[head, distance]``.
        share: Share of all weight on links of that length, ``[head, distance]``.
        uniform: Mean weight for uniform attention over visible tokens, ``[distance]``.
        pairs: Number of links, ``[distance]``.
    """

    steps: np.ndarray
    strength: np.ndarray
    share: np.ndarray
    uniform: np.ndarray
    pairs: np.ndarray


def reach(weights: np.ndarray, visible: np.ndarray) -> Reach:
    """Measure attention by the distance |query - key|.

    Args:
        weights: ``[head, query, key]`` of one sentence's self-attention.
        visible: ``[query, key]``, True where a query may look; other links are not counted.

    Raises:
        ValueError: Queries and keys are not of one sentence, or nothing is visible.
    """
    queries, keys = weights.shape[1:]
    if queries != keys or visible.shape != (queries, keys):
        raise ValueError(
            "Distances are counted inside one sentence: weights [head, token, token] and visible "
            f"[token, token]; got {list(weights.shape)} and {list(visible.shape)}."
        )
    if not visible.any():
        raise ValueError("No word may look at any other, so there is no link to measure.")
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys)[None, :])
    fair = visible / np.maximum(visible.sum(axis=1, keepdims=True), 1)
    pairs = _by_distance(visible.astype(np.float64)[None], apart, visible)[0]
    sums = _by_distance(weights.astype(np.float64), apart, visible)
    kept = pairs > 0
    total = sums.sum(axis=1, keepdims=True)
    return Reach(
        steps=np.flatnonzero(kept),
        strength=sums[:, kept] / pairs[kept],
        share=np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)[:, kept],
        uniform=_by_distance(fair[None], apart, visible)[0, kept] / pairs[kept],
        pairs=pairs[kept].astype(np.int64),
    )


def _by_distance(cells: np.ndarray, apart: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Return the sums of the visible cells of each distance: ``[head, distance]``."""
    places, size = apart[visible], apart.max() + 1
    return np.stack([np.bincount(places, head[visible], size) for head in cells])
