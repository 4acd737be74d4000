"""Statistics of attention heads, from whole matrices of weights.

The probe computes the same five numbers while a model runs (``trace.heads``); these are their
definitions in numpy, for weights that come from elsewhere: an edited matrix, merged words, a file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd


def entropy(weights: np.ndarray) -> np.ndarray:
    """How widely a head looks, in bits: the mean over queries of -sum w log2 w.

    Rows are taken as they are, so a row of zeros counts as 0. A uniform row over n keys has
    entropy log2 n, a row on a single key has 0 (Shannon 1948).

    Args:
        weights: ``[head, query, key]``.

    Returns:
        ``[head]`` float64.
    """
    rows = weights.astype(np.float64)
    logs = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    return -(rows * logs).sum(axis=2).mean(axis=1)


def distance(weights: np.ndarray) -> np.ndarray:
    """How far a head looks, in tokens: the mean over queries of sum_k w |query - key|.

    Args:
        weights: ``[head, query, key]``; query and key are positions counted from 0.

    Returns:
        ``[head]`` float64.
    """
    queries, keys = np.arange(weights.shape[1]), np.arange(weights.shape[2])
    steps = np.abs(queries[:, None] - keys[None, :])
    return (weights.astype(np.float64) * steps).sum(axis=2).mean(axis=1)


def largest(weights: np.ndarray) -> np.ndarray:
    """The largest weight of a head: ``[head, query, key]`` to ``[head]``."""
    return weights.astype(np.float64).max(axis=(1, 2))


def sink(weights: np.ndarray) -> np.ndarray:
    """How much a head parks on the first key: the mean over queries of w[query, 0], ``[head]``."""
    return weights[:, :, 0].astype(np.float64).mean(axis=1)


def row_sum_error(weights: np.ndarray) -> np.ndarray:
    """How far a head is from a distribution: the largest |sum of a row - 1|, ``[head]``."""
    return np.abs(weights.astype(np.float64).sum(axis=2) - 1).max(axis=1)


@dataclass(frozen=True)
class Metric:
    """A number about a head: its column, its unit, the question it answers, and how it is made.

    ``compute`` takes weights ``[head, query, key]`` and gives ``[head]`` float64.
    """

    name: str
    unit: str
    question: str
    compute: Callable[[np.ndarray], np.ndarray]


#: Every head metric, in the order of the columns of ``trace.heads``.
METRICS: tuple[Metric, ...] = (
    Metric("entropy", "bits", "How widely does this head look?", entropy),
    Metric("distance", "tokens", "How far away does this head look?", distance),
    Metric("max", "", "How sure is this head where it is surest?", largest),
    Metric("sink", "", "How much of its weight lies on the first word?", sink),
    Metric("row_sum_error", "", "Does each of its rows sum to 1?", row_sum_error),
)


def head_statistics(weights: np.ndarray) -> pd.DataFrame:
    """All metrics of one block's heads: a column ``head`` and one column a metric.

    Args:
        weights: ``[head, query, key]``.

    Raises:
        ValueError: another number of axes, or an axis of length 0; names the shape that came.
    """
    if weights.ndim != 3 or 0 in weights.shape:
        raise ValueError(
            f"Head statistics need weights [head, query, key], none of them empty; got shape "
            f"{weights.shape}. For one head pass weights[None], for a stack one layer at a time."
        )
    columns = {metric.name: metric.compute(weights) for metric in METRICS}
    return pd.DataFrame({"head": np.arange(len(weights))} | columns)
