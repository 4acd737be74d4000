"""Head metrics of whole weight matrices: edited matrices, merged words, files.

The probe computes the same ``HEAD_METRICS`` while a model runs (``trace.heads``).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...core.head_metrics import HEAD_METRICS, HeadMetric, Rows
from ...core.numerics import weight_bits


def head_statistics(weights: np.ndarray) -> pd.DataFrame:
    """Return all metrics of one block's heads: a column ``head`` and one per metric.

    Args:
        weights: ``[head, query, key]``; query and key are positions counted from 0.

    Raises:
        ValueError: The number of axes is wrong, or an axis is empty.
    """
    if weights.ndim != 3 or 0 in weights.shape:
        raise ValueError(
            f"Head statistics need weights [head, query, key], none of them empty; got shape "
            f"{weights.shape}. For one head pass weights[None], for a stack one layer at a time."
        )
    rows = _rows(weights[None].astype(np.float64))
    columns = {metric.name: _combined(metric, rows) for metric in HEAD_METRICS}
    return pd.DataFrame({"head": np.arange(len(weights))} | columns)


def _rows(w: np.ndarray) -> Rows:
    query, key = np.arange(w.shape[2])[:, None], np.arange(w.shape[3])
    return Rows(w, w, weight_bits(w), query, key, np.abs(query - key).astype(np.float64))


def _combined(metric: HeadMetric, rows: Rows) -> np.ndarray:
    """Return a metric over all query rows of one sentence, ``[head]`` float64."""
    values: np.ndarray = metric.of_rows(rows)[0]
    behind = tuple(range(1, values.ndim))
    if metric.combined == "max":
        return values.max(axis=behind)
    return np.asarray(values.sum(axis=behind) / rows.query.size)
