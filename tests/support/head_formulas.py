"""The head metrics once more, from whole matrices in float64: the witness for ``HEAD_METRICS``."""

from __future__ import annotations

import numpy as np


def entropy(weights: np.ndarray) -> np.ndarray:
    """The mean over queries of ``-sum w log2 w``: ``[head, query, key]`` to ``[head]``."""
    rows = weights.astype(np.float64)
    logs = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    return -(rows * logs).sum(axis=2).mean(axis=1)


def distance(weights: np.ndarray) -> np.ndarray:
    """The mean over queries of ``sum_k w |query - key|``: ``[head, query, key]`` to ``[head]``."""
    queries, keys = np.arange(weights.shape[1]), np.arange(weights.shape[2])
    steps = np.abs(queries[:, None] - keys[None, :])
    return (weights.astype(np.float64) * steps).sum(axis=2).mean(axis=1)


def largest(weights: np.ndarray) -> np.ndarray:
    """The largest weight: ``[head, query, key]`` to ``[head]``."""
    return weights.astype(np.float64).max(axis=(1, 2))


def sink(weights: np.ndarray) -> np.ndarray:
    """The mean over queries of ``w[query, 0]``: ``[head, query, key]`` to ``[head]``."""
    return weights[:, :, 0].astype(np.float64).mean(axis=1)


def row_sum_error(weights: np.ndarray) -> np.ndarray:
    """The largest ``|sum of a row - 1|``: ``[head, query, key]`` to ``[head]``."""
    return np.abs(weights.astype(np.float64).sum(axis=2) - 1).max(axis=1)


FORMULAS = {
    "entropy": entropy,
    "distance": distance,
    "max": largest,
    "sink": sink,
    "row_sum_error": row_sum_error,
}
