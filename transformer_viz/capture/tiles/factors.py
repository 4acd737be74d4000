"""Queries, keys, and the logarithm of each row's denominator, collected by row blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.apply_edits import HeadPlan, Plan
from ...core.tiles.cells import CELL, KEY
from .bias import Small
from .edges import Edges

MOST_BYTES = 64 * 1024**2  # of a block's matrices, kept if there are no queries and keys


@dataclass(eq=False)
class Factors:
    """Content of `core.tiles.Part`, as tensors of the first item of a batch."""

    q: Tensor
    k: Tensor
    log_sum: Tensor
    sharpness: list[float]
    gain: list[float]
    scale: float
    cap: float | None = None
    bias: Small | None = None
    edges: tuple[Tensor, Tensor] | None = None
    blank: Tensor | None = None
    only: Tensor | None = None
    first_head: int = 0
    first_row: int = 0
    sinks: bool = False


class Keeper:
    """Collector of the factors of one attention, some rows at a time.

    Args:
        q, k: ``[head, query, width]`` and ``[key head, key, width]``, of the first item.
        scale, cap: Factor of their product, and the bound of a tanh after it.
        bias: Bias that is added then.
        plan: Edits of the heads.
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        scale: float,
        cap: float | None,
        bias: Small | None,
        plan: Plan | None,
    ):
        self.q, self.k = owned(q), owned(lone_keys(k))
        self.scale, self.cap, self.bias = scale, cap, bias
        heads = [HeadPlan({})] * len(q) if plan is None else plan.heads
        self.gain = [head.gain for head in heads]
        self.hard = [head.hard for head in heads]
        self.sharpness = [head.sharpness for head in heads]
        self.edges: Edges | None = None
        self.sums: list[Tensor] = []
        self.blanks: list[Tensor] = []
        self.only: list[Tensor] = []

    def add(
        self, weights: Tensor, first: int, visible: Tensor | None, causal: bool = False
    ) -> None:
        """Add rows ``first ...`` of the weights ``[head, row, key]`` before heads are scaled.

        ``visible`` is bool ``[head or 1, row, key]``, None if every key is visible. ``causal``
        instead means that each row sees the keys up to its own position.
        """
        rows = weights.shape[1]
        largest, place = weights.max(-1)
        scores = self.at(first, place)
        sums = scores - largest.double().log()
        if visible is not None:
            self.edges = self.edges or Edges()
            self.edges.add(visible)
            empty = ~visible.any(-1)
            sums = sums.masked_fill(empty, 0.0)
            self.blanks.append(weights[..., 0].masked_fill(~empty, 0.0))
        elif causal:
            self.edges = self.edges or Edges()
            self.edges.add_causal(first, first + rows)
        self.sums.append(sums.nan_to_num(0.0, 0.0, 0.0))
        if any(self.hard):
            hard = torch.tensor(self.hard, device=weights.device)[:, None]
            nowhere = torch.full_like(place, weights.shape[-1])  # a sink has it all
            self.only.append(torch.where(hard, torch.where(largest > 0, place, nowhere), -1))

    def at(self, first: int, place: Tensor) -> Tensor:
        """Return the scores of one key per row, float64 ``[head, row]``."""
        heads, rows = place.shape
        q = self.q[:, first : first + rows].double()
        group = heads // len(self.k)
        head = torch.arange(heads, device=place.device)[:, None]
        found = (q * self.k[head // group, place].double()).sum(-1) * self.scale
        return self.shaped(found, lambda table: self.of_cells(table, head, first, place))

    def of_cells(self, table: Tensor, head: Tensor, first: int, place: Tensor) -> Tensor:
        """Return the bias of one key per row."""
        assert self.bias is not None
        head = head if len(table) > 1 else torch.zeros_like(head)
        row = torch.arange(first, first + place.shape[1], device=place.device)[None]
        if self.bias[0] == KEY:
            return table[head, place]
        if self.bias[0] == CELL:
            return table[head, row, place]
        return table[head, place - row + self.q.shape[1] - 1]

    def block(self, first: int, last: int) -> Tensor:
        """Return the scores of some rows from the factors, float64 ``[head, row, key]``."""
        group = len(self.q) // len(self.k)
        k = self.k.repeat_interleave(group, 0) if group > 1 else self.k
        found = (self.q[:, first:last].double() @ k.double().transpose(1, 2)) * self.scale
        keys = k.shape[1]

        def rows(table: Tensor) -> Tensor:
            assert self.bias is not None
            if self.bias[0] == KEY:
                return table[:, None]
            if self.bias[0] == CELL:
                return table[:, first:last]
            row = torch.arange(first, last, device=k.device)[:, None]
            return table[:, torch.arange(keys, device=k.device) - row + self.q.shape[1] - 1]

        return self.shaped(found, rows)

    def shaped(self, product: Tensor, of_table: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a product of queries and keys after cap, bias and temperature."""
        if self.cap is not None:
            product = self.cap * torch.tanh(product / self.cap)
        if self.bias is not None:
            product = product + of_table(self.bias[1])
        sharp = torch.tensor(self.sharpness, dtype=product.dtype, device=product.device)
        return product * sharp.reshape(-1, *[1] * (product.dim() - 1))

    def result(self, first_head: int, first_row: int) -> Factors:
        """Return the factors of all rows."""
        blank = torch.cat(self.blanks, 1) if self.blanks else None
        return Factors(
            q=self.q,
            k=self.k,
            log_sum=torch.cat(self.sums, 1),
            sharpness=self.sharpness,
            gain=self.gain,
            scale=self.scale,
            cap=self.cap,
            bias=self.bias,
            edges=None if self.edges is None else self.edges.result(),
            blank=blank if blank is not None and bool((blank != 0).any()) else None,
            only=torch.cat(self.only, 1) if self.only else None,
            first_head=first_head,
            first_row=first_row,
        )


def fits(heads: int, queries: int, keys: int) -> bool:
    """Return True if matrices are small enough to be kept if tiles are impossible."""
    return 4 * heads * queries * keys <= MOST_BYTES


def owned(x: Tensor) -> Tensor:
    """Return a float32 copy, independent of larger tensors and of later overwriting."""
    return torch.empty(x.shape, device=x.device).copy_(x.detach())


def lone_keys(k: Tensor) -> Tensor:
    """Return keys ``[head, key, width]`` without those repeated for several query heads."""
    heads = len(k)
    for group in range(heads, 1, -1):
        if heads % group == 0 and torch.equal(k[0], k[group - 1]):
            grouped = k.unflatten(0, (-1, group))
            if bool((grouped == grouped[:, :1]).all()):
                return grouped[:, 0]
    return k
