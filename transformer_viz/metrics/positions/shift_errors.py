"""Errors of fixed rotations for shifts of k positions, and similarity by distance."""

from __future__ import annotations

import numpy as np

from .positions import shift, similarity


def shift_errors(table: np.ndarray) -> np.ndarray:
    """Return the error of one rotation per pair for a shift of k positions: ``[k]``.

    The largest difference relative to the table's largest value, for every k from 1 to half of the
    positions. It is nearly 0 if a shift is a fixed rotation (Vaswani et al. 2017, section 3.5).

    Args:
        table: ``[position, dimension]``.
    """
    return np.array([shift(table, by).relative for by in range(1, len(table) // 2 + 1)])


def similarity_by_distance(table: np.ndarray) -> np.ndarray:
    """Return the mean cosine between rows k apart, ``[k]`` for k from 0 to half of the rows."""
    cosines = similarity(table)
    return np.array([np.diagonal(cosines, by).mean() for by in range(len(table) // 2 + 1)])
