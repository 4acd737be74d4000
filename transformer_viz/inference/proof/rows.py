"""What the first passes tell of each attention: its numbers, those shown beside its map, its rows,
and how its keys grew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.head_metrics import HEAD_METRICS, Rows
from .accounts import Account, name, rows_in_blocks, softmaxed, widened
from .numbering import first_of_stairs, looked_at

if TYPE_CHECKING:
    from .further import Passes

SIDE, LEVELS = 64, 255  # cells of a thumbnail's side, and its lightest grey
ROUNDED = 0.5 + 1e-3  # how far a grey may be from the weight that it stands for, in levels


def numbers_gap(passes: Passes, account: Account) -> float | None:
    """How far the captured weights are from those of the kernels; None without any kernel."""
    if not account.parts:
        where = name(account.record)
        passes.untold.append(
            f"{where}: no softmax was matched with these numbers; the module reckons its "
            "weights itself, or uses those of one softmax in another shape or more than once"
        )
        return None
    if not account.complete:
        return float("inf")
    expected = softmaxed(account.record)
    assert expected is not None
    worst = 0.0
    for number, places in account.parts.items():
        made = widened(passes.kernels[number], expected.shape[-1])
        for block in rows_in_blocks(*made.shape):
            gap = made[block].double().cpu().nan_to_num(0.0) - expected.rows(places[block]).cpu()
            worst = max(worst, float(gap.abs().max()))
    return worst


def rows_gap(passes: Passes, account: Account) -> float | None:
    """0 where each row is one row of what the output projection got; None if not told."""
    batch, _, queries, _ = account.shape
    where = name(account.record)
    kernels = [passes.kernels[number] for number in account.parts]
    sizes = [kernel.projected for kernel in kernels]
    if not sizes or None in sizes:
        passes.untold.append(
            f"{where}: no output projection was recognised that takes its heads, and nothing else"
        )
        return None
    counts = {math.prod(size[:-1]) for size in sizes if size is not None}
    if len(kernels) == 1 and kernels[0].in_parts():
        counts = {sum(math.prod(size[:-1]) for size in kernels[0].projections)}
    if account.unsure:
        passes.untold.append(
            f"{where}: its weights are so alike on this input that its rows could be told in "
            "another order too; give an input that it tells apart"
        )
        return None
    if counts != {batch * queries} and len(kernels) == 1 and kernels[0].shared():
        passes.untold.append(
            f"{where}: several projections share its heads, each for some tokens (experts that a "
            "router chose), so that its rows are not proved at an output projection"
        )
        return None
    if counts != {batch * queries}:
        passes.untold.append(
            f"{where}: its {batch * queries} rows are not the {min(counts)} rows that the "
            "output projection got"
        )
        return None
    return 0.0


def first_row_gap(passes: Passes, account: Account) -> dict[str, float | None]:
    """Where a self-attention has more keys than rows, its numbers of rows are not proved."""
    queries, keys = account.record.shape
    first = account.record.offset - account.record.first_key
    if account.record.kind != "self" or queries == keys:
        return {}
    if first_of_stairs(looked_at(account, passes.kernels)) == first:
        return {"first row": 0.0}
    where = name(account.record)
    passes.untold.append(
        f"{where}: {queries} rows look at {keys} keys; that its first row is number "
        f"{account.record.offset} follows from how the keys grew and is not proved"
    )
    return {"first row": None}


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
