"""Patches from one pass to another: head outputs, weights, residual stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..core.interventions import Edit
from ..core.sites import Site

OUTPUTS, PATTERNS, STREAM = "outputs", "patterns", "stream"


@dataclass(frozen=True, eq=False)
class Donation:
    """Numbers that replace those of a pass at one site.

    Attributes:
        what: ``outputs`` (of heads, before the output projection), ``patterns`` (their weights) or
            ``stream`` (after a residual sum).
        site: The site.
        values: ``[batch, head, row, width]``, for a residual stream ``[batch, row, d_model]``;
            sizes of 1 are broadcast.
        rows: Tokens of the pass, None for all; ``heads`` likewise.
        copies: Items of the batch, None for all.
        edit: Edit that requested the patch.
        nth: Index of the residual sum at its site.
        time_first: True if tokens come before items there.
    """

    what: str
    site: Site
    values: Tensor
    rows: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None
    copies: tuple[int, ...] | None = None
    edit: Edit | None = None
    nth: int = 0
    time_first: bool = False


@dataclass(eq=False)
class Offered:
    """Values of a pass that may be patched into another, in call order.

    By site: the heads' outputs ``[batch, head, query, width]``, and the residual sums as the module
    has them. ``cut`` lists sites without separate outputs.
    """

    outputs: dict[Site, list[Tensor]] = field(default_factory=dict)
    sums: dict[Site, list[Tensor]] = field(default_factory=dict)
    cut: set[Site] = field(default_factory=set)


class Giving:
    """Patches of one pass, and the unused ones among them."""

    def __init__(self, donations: tuple[Donation, ...] = ()):
        self.donations = donations
        self.left = set(map(id, donations))
        self.sums: Counter[Site] = Counter()

    def of(self, what: str, site: Site, nth: int = 0) -> list[Donation]:
        """Return the patches of a site, in order."""
        return [d for d in self.donations if (d.what, d.site, d.nth) == (what, site, nth)]

    def at(self, site: Site) -> bool:
        """Return True if an attention is patched."""
        return any(d.site == site and d.what != STREAM for d in self.donations)

    def put(self, x: Tensor, found: list[Donation], first_row: int = 0) -> Tensor:
        """Return ``x`` ``[batch, head, row, width]`` with the patches applied.

        Its row 0 is row ``first_row`` of the pass.
        """
        made = x.clone()
        for one in found:
            self.left.discard(id(one))
            values = one.values.to(made)
            rows = range(x.shape[2]) if one.rows is None else one.rows
            kept = [n for n, row in enumerate(rows) if 0 <= row - first_row < x.shape[2]]
            if not kept:
                continue
            if one.rows is not None and values.shape[2] > 1:
                values = values[:, :, kept]
            places = (
                range(x.shape[0]) if one.copies is None else one.copies,
                range(x.shape[1]) if one.heads is None else one.heads,
                [rows[n] - first_row for n in kept] if one.rows is not None else list(rows),
            )
            batch, heads, queries = (torch.tensor(list(p), device=x.device) for p in places)
            made[batch[:, None, None], heads[None, :, None], queries[None, None, :]] = values
        return made
