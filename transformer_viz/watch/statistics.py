"""Head statistics and thumbnails, computed row block by row block while a layer runs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

SIDE = 64  # a thumbnail is at most this many cells wide and high
COLUMNS = ("entropy", "distance", "max", "sink", "row_sum_error")


class Statistics:
    """Sums over the query rows of one attention, ``[batch, head]`` each.

    Entropy in bits (mean over queries of ``-sum w log2 w``), distance in tokens (mean over queries
    of ``sum w |query - key|``), largest weight, sink (mean weight on key 0) and the worst
    ``|row sum - 1|``. Rows come in blocks, so ``[head, query, key]`` is never needed at once.
    """

    def __init__(self, queries: int, keys: int, offset: int):
        self.queries, self.keys, self.offset = queries, keys, offset
        self.sums: dict[str, Tensor] = {}
        self.pooled: list[Tensor] = []
        self.stride = math.ceil(queries / SIDE)

    def add(self, weights: Tensor, first: int) -> None:
        """Take in the rows ``first ...`` of the weights ``[batch, head, query, key]``."""
        w = weights.detach().float()
        rows = w.shape[2]
        device = w.device
        place = torch.arange(first, first + rows, device=device) + self.offset
        far = (place[:, None] - torch.arange(self.keys, device=device)).abs().float()
        keys = w[..., : self.keys]
        self._more("entropy", torch.special.entr(w).sum((-1, -2)) / math.log(2))
        self._more("distance", keys.flatten(2) @ far.flatten())
        self._more("sink", w[..., 0].sum(-1))
        self._most("max", w.amax((-1, -2)))
        self._most("row_sum_error", (w.sum(-1) - 1).abs().amax(-1))
        self.pooled.append(self._pool(keys))

    def _more(self, name: str, value: Tensor) -> None:
        self.sums[name] = self.sums[name] + value if name in self.sums else value

    def _most(self, name: str, value: Tensor) -> None:
        self.sums[name] = torch.maximum(self.sums[name], value) if name in self.sums else value

    def _pool(self, w: Tensor) -> Tensor:
        high, wide = self.stride, math.ceil(self.keys / SIDE)
        if high > 1 or wide > 1:
            w = F.max_pool2d(w, (min(high, w.shape[2]), wide), (high, wide), ceil_mode=True)
        return (w.clamp(0, 1) * 255).round().to(torch.uint8)

    def result(self) -> dict[str, Tensor]:
        """Each statistic, ``[batch, head]`` float32."""
        mean = {"entropy", "distance", "sink"}
        return {
            name: self.sums[name] / self.queries if name in mean else self.sums[name]
            for name in COLUMNS
        }

    def thumbnail(self) -> Tensor:
        """uint8 ``[batch, head, <=64, <=64]``, max-pooled, 255 = weight 1."""
        return torch.cat(self.pooled, dim=2)


def block_rows(queries: int) -> int:
    """How many rows to take at once: about 256, and whole cells of the thumbnail."""
    stride = math.ceil(queries / SIDE)
    return max(1, 256 // stride) * stride
