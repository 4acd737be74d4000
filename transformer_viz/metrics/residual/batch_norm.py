"""One word's vector beside the words of its own sentence, and of others: layer norm, batch norm.

Layer norm takes mean and variance over the numbers of one word (Ba et al. 2016, equation 4); batch
norm takes them of each number over all words of a batch (Ioffe and Szegedy 2015, algorithm 1).
Both without gain and bias, with the variance divided by n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

EPSILON = 1e-5


def layer_normed(rows: np.ndarray) -> np.ndarray:
    """Every word by the numbers of its own vector: ``[token, dimension]`` float64."""
    rows = rows.astype(np.float64)
    mean, variance = rows.mean(axis=1, keepdims=True), rows.var(axis=1, keepdims=True)
    return np.asarray((rows - mean) / np.sqrt(variance + EPSILON))


def batch_normed(rows: np.ndarray, batch: Sequence[np.ndarray]) -> np.ndarray:
    """Every dimension by what it is in all words of a batch: ``[token, dimension]`` float64.

    Args:
        rows: the sentence that is asked about, ``[token, dimension]``.
        batch: the sentences of the batch, this one among them, each ``[token, dimension]`` without
            its padding (or with it, to see what that does).

    Raises:
        ValueError: an empty batch, or sentences of different width.
    """
    widths = {rows.shape[1], *(one.shape[1] for one in batch)}
    if not batch or len(widths) > 1:
        raise ValueError(
            f"A batch needs sentences [token, dimension] of one width; got {len(batch)} of widths "
            f"{sorted(widths)}."
        )
    every = np.concatenate([one.astype(np.float64) for one in batch])
    return np.asarray((rows - every.mean(axis=0)) / np.sqrt(every.var(axis=0) + EPSILON))
