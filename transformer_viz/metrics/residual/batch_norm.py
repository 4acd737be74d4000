"""Layer norm and batch norm of token vectors, for comparison.

Layer norm takes mean and variance over the features of one token (Ba et al. 2016, equation 4).
Batch norm takes them per feature over all tokens of a batch (Ioffe and Szegedy 2015, algorithm 1).
Both without gain and bias, with the variance divided by n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

EPSILON = 1e-5


def layer_normed(rows: np.ndarray) -> np.ndarray:
    """Normalize every token over its features: ``[token, dimension]`` float64."""
    rows = rows.astype(np.float64)
    mean, variance = rows.mean(axis=1, keepdims=True), rows.var(axis=1, keepdims=True)
    return np.asarray((rows - mean) / np.sqrt(variance + EPSILON))


def batch_normed(rows: np.ndarray, batch: Sequence[np.ndarray]) -> np.ndarray:
    """Normalize every feature over all tokens of a batch: ``[token, dimension]`` float64.

    Args:
        rows: Sentence to normalize, ``[token, dimension]``.
        batch: Sentences of the batch, including this one, each ``[token, dimension]`` without
            padding (or with it, to show its effect).

    Raises:
        ValueError: An empty batch, or sentences of different width.
    """
    widths = {rows.shape[1], *(one.shape[1] for one in batch)}
    if not batch or len(widths) > 1:
        raise ValueError(
            f"A batch needs sentences [token, dimension] of one width; got {len(batch)} of widths "
            f"{sorted(widths)}."
        )
    every = np.concatenate([one.astype(np.float64) for one in batch])
    return np.asarray((rows - every.mean(axis=0)) / np.sqrt(every.var(axis=0) + EPSILON))
