"""Is k positions further always the same turn, and how alike are two places so far apart?"""

from __future__ import annotations

import numpy as np

from .positions import shift, similarity


def shift_errors(table: np.ndarray) -> np.ndarray:
    """How far one turn for each pair of dimensions misses the rows k further: ``[k]``.

    The largest difference in shares of the table's largest value, for every k from 1 to half of
    the positions: nearly 0 where k further is a fixed turn (Vaswani et al. 2017, section 3.5).

    Args:
        table: ``[position, dimension]``.
    """
    return np.array([shift(table, by).relative for by in range(1, len(table) // 2 + 1)])


def similarity_by_distance(table: np.ndarray) -> np.ndarray:
    """The mean cosine between rows that are k apart, ``[k]`` for k from 0 to half of the rows."""
    cosines = similarity(table)
    return np.array([np.diagonal(cosines, by).mean() for by in range(len(table) // 2 + 1)])
