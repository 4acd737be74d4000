"""Simulation of heads whose keys equal their queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.numerics import softmax


@dataclass(frozen=True, eq=False)
class Shared:
    """Scores and weights with a head's own keys, and with its queries as keys.

    Attributes:
        own: Scores ``[head, query, key]`` with own keys.
        shared: Scores with queries as keys.
        own_weights: Weights with own keys.
        shared_weights: Weights with queries as keys.
        lopsided: Antisymmetric share of the scores in both cases, ``[head, 2]``.
        itself: Mean weight of a token on itself in both cases, ``[head, 2]``.
    """

    own: np.ndarray
    shared: np.ndarray
    own_weights: np.ndarray
    shared_weights: np.ndarray
    lopsided: np.ndarray
    itself: np.ndarray


def share_keys(q: np.ndarray, k: np.ndarray, scale: float, visible: np.ndarray) -> Shared:
    """Return scores q·k, and scores q·q with queries as keys.

    q·q is symmetric: two tokens have the same score for each other. No token fits better than a
    copy of itself of the same length (Cauchy-Schwarz). The softmax still differs from row to row.

    Args:
        q: ``[head, token, d_k]``.
        k: ``[head, token, d_k]``.
        scale: Factor of the product, 1 / sqrt(d_k) in the paper.
        visible: ``[token, token]``, True where a query may look.

    Raises:
        ValueError: Queries and keys have different sentences or widths.
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
    """Return the antisymmetric share of the squared scores.

    Any matrix is S = (S + Sᵀ) / 2 + (S − Sᵀ) / 2, and the squares of the two parts add up to those
    of S. 0: symmetric; 1/2: scores in both directions are independent; 1: antisymmetric. Cells of
    both triangles count, masked or not.

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
