"""How strong the links between words are, by how far apart the words stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Reach:
    """Links by distance: ``steps`` ``[distance]`` in tokens, from 0.

    ``strength`` ``[head, distance]`` is the mean weight of a link of that length, ``uniform``
    ``[distance]`` that of a head which looks at all visible words alike, ``pairs`` ``[distance]``
    how many links there are. ``share`` ``[head, distance]`` is the part of all weight that links of
    that length have together.
    """

    steps: np.ndarray
    strength: np.ndarray
    share: np.ndarray
    uniform: np.ndarray
    pairs: np.ndarray


def reach(weights: np.ndarray, visible: np.ndarray) -> Reach:
    """How strong links are, by the distance |query - key|.

    Args:
        weights: ``[head, query, key]`` of one sentence that looks at itself.
        visible: ``[query, key]``, true where a query may look; other links are not counted.

    Raises:
        ValueError: queries and keys are not of one sentence, or nothing is visible.
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
    """Sums of the visible cells of each distance: ``[head, distance]``."""
    places, size = apart[visible], apart.max() + 1
    return np.stack([np.bincount(places, head[visible], size) for head in cells])
