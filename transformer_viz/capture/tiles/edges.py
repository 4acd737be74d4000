"""Visible keys of each row, as the keys at which visibility changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class Edges:
    """Collector of masks by row blocks; see `core.tiles.Visible`."""

    places: list[list[Tensor]] = field(default_factory=list)
    counts: list[Tensor] = field(default_factory=list)

    def add(self, visible: Tensor) -> None:
        """Add some more rows, bool ``[head or 1, row, key]``."""
        shut = visible.new_zeros(*visible.shape[:2], 1)
        padded = torch.cat((shut, visible, shut), -1)
        turns = padded[..., 1:] != padded[..., :-1]
        counts = turns.sum(-1)
        flat = turns.nonzero()[:, 2].to(torch.int32)
        self.places.append(list(flat.split(counts.sum(-1).tolist())))
        self.counts.append(counts)

    def add_causal(self, first: int, last: int) -> None:
        """Add rows that see all keys up to their own position."""
        row = torch.arange(first, last, dtype=torch.int32, device="cpu")
        self.places.append([torch.stack((torch.zeros_like(row), row + 1), 1).reshape(-1)])
        self.counts.append(torch.full((1, last - first), 2, device="cpu"))

    def result(self) -> tuple[Tensor, Tensor]:
        """Return edges int32, and the ends of each row's edges, int64 ``[head or 1, row]``."""
        heads = [torch.cat([block[h] for block in self.places]) for h in range(len(self.places[0]))]
        counts = torch.cat(self.counts, 1)
        alike = all(torch.equal(heads[0], one) for one in heads[1:])
        if alike and bool((counts == counts[:1]).all()):
            heads, counts = heads[:1], counts[:1]
        return torch.cat(heads), counts.reshape(-1).cumsum(0).reshape(counts.shape)
