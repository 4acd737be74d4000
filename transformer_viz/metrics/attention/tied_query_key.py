"""What would become of a head whose queries and keys were the same vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.numerics import softmax


@dataclass(frozen=True, eq=False)
class Shared:
    """Scores and weights ``[head, query, key]`` with the head's own keys, and with its queries in
    their place; ``lopsided`` and ``itself`` ``[head, 2]`` are how far the scores are from
    symmetric, and the mean weight of a word on itself, in both."""

    own: np.ndarray
    shared: np.ndarray
    own_weights: np.ndarray
    shared_weights: np.ndarray
    lopsided: np.ndarray
    itself: np.ndarray


def share_keys(q: np.ndarray, k: np.ndarray, scale: float, visible: np.ndarray) -> Shared:
    """Scores q·k as they are, and q·q as they would be if the key were the query.

    q·q is symmetric: if one word finds another one interesting, the other must find it just as
    interesting, and no word can fit better than a copy of itself that is as long (Cauchy and
    Schwarz). The softmax still differs from row to row.

    Args:
        q: ``[head, token, d_k]``.
        k: ``[head, token, d_k]``.
        scale: what the product is multiplied with, 1 / sqrt(d_k) in the paper.
        visible: ``[token, token]``, true where a query may look.

    Raises:
        ValueError: queries and keys of different sentences or widths.
    """
    if q.shape != k.shape:
        raise ValueError(
            f"Queries {list(q.shape)} and keys {list(k.shape)} belong to different words; only "
            "self-attention can share them."
        )
    exact, keys = q.astype(np.float64), k.astype(np.float64)
    scores = [scale * exact @ other.swapaxes(1, 2) for other in (keys, exact)]
    weights = [softmax(np.where(visible, score, -np.inf)) for score in scores]
    return Shared(
        own=scores[0],
        shared=scores[1],
        own_weights=weights[0],
        shared_weights=weights[1],
        lopsided=np.stack([lopsidedness(score) for score in scores], axis=1),
        itself=np.stack([_diagonal(part) for part in weights], axis=1),
    )


def lopsidedness(scores: np.ndarray) -> np.ndarray:
    """How far scores are from symmetric: the part of their squares that is antisymmetric.

    Any matrix is S = (S + Sᵀ) / 2 + (S − Sᵀ) / 2, and the squares of the two parts add up to those
    of S. 0: symmetric, as fits as fitted; 1/2: what a word gives says nothing about what it gets;
    1: opposite. Cells of both triangles are counted, whether a mask hides them or not.

    Args:
        scores: ``[..., token, token]``.

    Returns:
        ``[...]`` float64.
    """
    exact = scores.astype(np.float64)
    odd = (exact - exact.swapaxes(-1, -2)) / 2
    whole = np.square(exact).sum(axis=(-2, -1))
    part = np.square(odd).sum(axis=(-2, -1))
    return np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0)


def _diagonal(weights: np.ndarray) -> np.ndarray:
    return np.einsum("hii->h", weights) / weights.shape[1]
