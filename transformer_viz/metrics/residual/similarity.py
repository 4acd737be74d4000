"""Similarity of a sentence's tokens: cosines between their vectors."""

from __future__ import annotations

import numpy as np


def alikeness(vectors: np.ndarray) -> np.ndarray:
    """Return the mean cosine between the vectors of two different tokens.

    1: all vectors have one direction; 0: no similarity. Without residual connections attention
    drives it to 1 (Dong, Cordonnier and Loukas 2021, "Attention is not all you need: pure attention
    loses rank doubly exponentially with depth"). A zero vector has cosine 0 with all others.

    Args:
        vectors: ``[..., token, d_model]``.

    Returns:
        ``[...]`` float64.

    Raises:
        ValueError: Fewer than two tokens.
    """
    words = vectors.shape[-2]
    if words < 2:
        raise ValueError("One word alone is like no other; give two words or more.")
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    pointed = np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0)
    whole = np.square(pointed.sum(axis=-2)).sum(axis=-1)  # every pair twice, and each with itself
    own = np.square(pointed).sum(axis=(-2, -1))
    return (whole - own) / (words * (words - 1))
