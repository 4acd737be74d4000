"""Head statistics and thumbnails, computed by row blocks while a layer runs."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from ..core.head_metrics import HEAD_METRICS, HeadMetric, Rows
from ..core.numerics import weight_bits

SIDE = 64  # a thumbnail is at most this many cells wide and high
CELLS = 400_000  # cells processed at once, so that they stay in a core's cache
ON_CARD = 16  # factor on a GPU, where launching an operation costs more than computing it


class Statistics:
    """Every head metric of one attention, ``[batch, head]`` each.

    Rows come in blocks, so ``[head, query, key]`` is never needed at once. Entropy is NaN for
    negative weights, which are possible without a softmax.
    """

    def __init__(self, queries: int, keys: int, offset: int):
        self.queries, self.keys, self.offset = queries, keys, offset
        self.sums: dict[str, Tensor] = {}
        self.pooled: Tensor | None = None
        self.stride = cells(queries)

    def add(self, weights: Tensor, first: int) -> None:
        """Add the rows ``first ...`` of the weights ``[batch, head, query, key]``.

        Keys at the end that none of these rows sees may be left out.
        """
        rows = weights.shape[2]
        most = at_once(CELLS, weights.device)
        step = block_rows(self.queries, most // max(1, weights.numel() // max(1, rows)))
        for start in range(0, rows, step):
            self._block(weights.detach()[:, :, start : start + step].float(), first + start)

    def _block(self, w: Tensor, first: int) -> None:
        keys = w[..., : self.keys]
        places = positions(first + self.offset, w.shape[2], keys.shape[3], w.device)
        rows = Rows(keys, w, weight_bits(w), *places)
        for metric in HEAD_METRICS:
            self._combine(metric, metric.of_rows(rows))
        self._pool(keys, first)

    def _combine(self, metric: HeadMetric, values: Tensor) -> None:
        axes, before = tuple(range(2, values.dim())), self.sums.get(metric.name)
        if metric.combined == "mean":
            value = values.sum(axes) if axes else values
            self.sums[metric.name] = value if before is None else before + value
        else:
            value = values.amax(axes) if axes else values
            self.sums[metric.name] = value if before is None else torch.maximum(before, value)

    def _pool(self, w: Tensor, first: int) -> None:
        """Update the largest weight of each thumbnail cell; rows may begin anywhere."""
        if self.pooled is None:
            side = math.ceil(self.queries / self.stride), math.ceil(self.keys / cells(self.keys))
            self.pooled = w.new_zeros(*w.shape[:2], *side)
        begun = min(-first % self.stride, w.shape[2])  # rows that belong to a cell begun before
        for part, row in ((w[:, :, :begun], first), (w[:, :, begun:], first + begun)):
            if part.shape[2]:
                small = pooled(pooled(part, 2, self.stride), 3, cells(self.keys))
                cell = row // self.stride
                place = self.pooled[:, :, cell : cell + small.shape[2], : small.shape[3]]
                torch.maximum(place, small, out=place)

    def result(self) -> dict[str, Tensor]:
        """Return each statistic, ``[batch, head]`` float32."""
        return {
            m.name: self.sums[m.name] / (self.queries if m.combined == "mean" else 1)
            for m in HEAD_METRICS
        }

    def thumbnail(self) -> Tensor:
        """Return the thumbnail, uint8 ``[batch, head, <=64, <=64]``, max-pooled, 255 = weight 1."""
        assert self.pooled is not None
        return greys(self.pooled)


@lru_cache(maxsize=16)
def positions(
    first: int, rows: int, keys: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries ``[row, 1]``, keys ``[key]``, and ``|query - key|`` float32 ``[row, key]``.

    The result is cached, since every layer needs the same.
    """
    with torch.inference_mode(False):
        query = torch.arange(first, first + rows, device=device)[:, None]
        key = torch.arange(keys, device=device)
        return query, key, (query - key).abs().float()


def pooled(w: Tensor, dim: int, step: int) -> Tensor:
    """Return the largest of each ``step`` neighbours of a dimension; the last cell may be smaller.

    Takes a fifth of the time of ``max_pool2d`` on a CPU, which also records the indices.
    """
    if step == 1:
        return w
    size = w.shape[dim]
    even = size // step * step
    cells = w.narrow(dim, 0, even).unflatten(dim, (-1, step)).amax(dim + 1) if even else None
    if even == size:
        assert cells is not None
        return cells
    rest = w.narrow(dim, even, size - even).amax(dim, keepdim=True)
    return rest if cells is None else torch.cat((cells, rest), dim)


def cells(size: int) -> int:
    """Return the rows or columns of an attention per thumbnail cell."""
    return math.ceil(size / SIDE)


def thumbnail(w: Tensor) -> Tensor:
    """Return the thumbnail of weights ``[batch, head, query, key]``."""
    return greys(pooled(pooled(w, 2, cells(w.shape[2])), 3, cells(w.shape[3])))


def greys(small: Tensor) -> Tensor:
    """Return pooled weights as uint8: 255 is a weight of 1."""
    return (small.clamp(0, 1) * 255).round().to(torch.uint8)


def shrunk(thumbnail: Tensor) -> Tensor:
    """Return a thumbnail pooled again after it grew too high."""
    return pooled(thumbnail, 2, cells(thumbnail.shape[2]))


def at_once(cells: int, device: torch.device) -> int:
    """Return the number of cells to process at once on a device, given that of a core's cache."""
    return cells if device.type == "cpu" else cells * ON_CARD


def block_rows(queries: int, about: int = 256) -> int:
    """Return the rows to process at once: about ``about``, in whole thumbnail cells if possible."""
    return about // cells(queries) * cells(queries) or max(1, about)
