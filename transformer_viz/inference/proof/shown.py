"""Numbers that are shown beside a map, reckoned again from the map: statistics and thumbnail."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.head_metrics import HEAD_METRICS, Rows

SIDE, LEVELS = 64, 255  # cells of a thumbnail's side, and its lightest grey
ROUNDED = 0.5 + 1e-3  # how far a grey may be from the weight that it stands for, in levels


def numbers_apart(record: AttentionRecord) -> float | None:
    """How far statistics and thumbnail are from those of the weights; None without any."""
    if record.weights is None or record.thumbnail is None or not record.statistics:
        return None
    gaps = []
    for head, some in enumerate(record.weights.detach().split(1, dim=1)):
        weights, own = some.double().cpu(), slice(head, head + 1)
        statistics = {name: x[:, own].double().cpu() for name, x in record.statistics.items()}
        gaps.append(statistics_apart(record, weights, statistics))
        gaps.append(greys_apart(record.thumbnail[:, own].cpu(), weights))
    return max(gaps)


def statistics_apart(
    record: AttentionRecord, weights: Tensor, statistics: dict[str, Tensor]
) -> float:
    """The largest difference of some heads' statistics, relative where they are larger than 1."""
    query = torch.arange(weights.shape[2], device="cpu")[:, None] + record.offset - record.first_key
    key = torch.arange(weights.shape[3], device="cpu")
    bits = torch.special.xlogy(weights, weights) / math.log(2)
    rows = Rows(weights, weights, bits, query, key, (query - key).abs().double())
    worst = 0.0
    for metric in HEAD_METRICS:
        values = metric.of_rows(rows)
        axes = tuple(range(2, values.dim()))
        if metric.combined == "mean":
            expected = (values.sum(axes) if axes else values) / weights.shape[2]
        else:
            expected = values.amax(axes) if axes else values
        off = (statistics[metric.name] - expected).abs()
        worst = max(worst, float((off / expected.abs().clamp(min=1)).nan_to_num().max()))
    return worst


def greys_apart(thumbnail: Tensor, weights: Tensor) -> float:
    """How far the greys of a thumbnail are from the largest weights of their cells, less what is
    rounded."""
    steps = [math.ceil(size / SIDE) for size in weights.shape[2:]]
    cells = F.max_pool2d(weights.nan_to_num(), steps, ceil_mode=True).clamp(0, 1) * LEVELS
    if cells.shape != thumbnail.shape:
        return math.inf
    return max(0.0, float((thumbnail.double() - cells).abs().max()) - ROUNDED) / LEVELS
