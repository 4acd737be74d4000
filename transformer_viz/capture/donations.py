"""What one pass may lend to another one: heads' outputs, weights, the residual stream."""

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
    """Numbers that take the place of a pass's own at one site.

    ``what`` is ``outputs`` (of heads, before the output projection), ``patterns`` (their weights)
    or ``stream`` (behind a residual sum). ``values`` are ``[batch, head, row, width]``, of a stream
    ``[batch, row, d_model]``; sizes of 1 stand for all. ``rows`` are the pass's own tokens, None
    all of them; ``heads`` likewise; ``copies`` the items of the batch. ``edit`` is what asked for
    it. ``nth`` is which sum of its site a stream's is, ``time_first`` whether tokens come before
    items there.
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
    """What a pass gave, in call order: by site the heads' outputs ``[batch, head, query, width]``,
    and the residual sums as the module has them. ``cut`` says where outputs were not found."""

    outputs: dict[Site, list[Tensor]] = field(default_factory=dict)
    sums: dict[Site, list[Tensor]] = field(default_factory=dict)
    cut: set[Site] = field(default_factory=set)


class Giving:
    """The donations of one pass, and which of them were given."""

    def __init__(self, donations: tuple[Donation, ...] = ()):
        self.donations = donations
        self.left = set(map(id, donations))
        self.sums: Counter[Site] = Counter()

    def of(self, what: str, site: Site, nth: int = 0) -> list[Donation]:
        """Those for a site, in their order."""
        return [d for d in self.donations if (d.what, d.site, d.nth) == (what, site, nth)]

    def at(self, site: Site) -> bool:
        """Whether anything is lent to an attention."""
        return any(d.site == site and d.what != STREAM for d in self.donations)

    def put(self, x: Tensor, found: list[Donation], first_row: int = 0) -> Tensor:
        """``x`` ``[batch, head, row, width]`` with these in their places; row 0 of it is the
        pass's row ``first_row``."""
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
