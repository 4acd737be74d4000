"""Edits of single rows of a shared pass; `probe` edits all rows the same way.

Only for the reference Transformer with its known order of attentions, and for passes with one new
token per row. `core/apply_edits.py` computes edited scores and weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.apply_edits import Plan
from ...core.interventions import Intervention
from ...core.sites import Site

Plans = Mapping[Site, Plan]


def plans_of(intervention: Intervention | None, sites: Sequence[Site], heads: int) -> Plans:
    """Return the plan of each attention that these edits change."""
    edits = (intervention or Intervention()).of_the_pass()
    found = {site: Plan.at(edits, site, heads) for site in sites}
    return {site: plan for site, plan in found.items() if plan is not None}


@dataclass(frozen=True)
class RowEdits:
    """Edits of ``rows``, with their ``text`` length and source length ``memory``, in tokens."""

    rows: slice
    plans: Plans
    text: int
    memory: int


@dataclass(frozen=True)
class _Masked:
    """Scores before and after masking; ``hidden`` is True where the mask hides."""

    base: Tensor
    hidden: Tensor
    given: Tensor


class RowEditing:
    """Handler of `InterceptCalls` that edits the weights of some rows in a decoder pass.

    The decoder belongs to a reference Transformer. Edits do not see the padding columns before a
    row's text and source.
    """

    def __init__(self, sites: Sequence[Site], edits: Sequence[RowEdits]):
        self.sites: Iterator[Site] = iter(sites)
        self.edits, self.masked = edits, _nothing()

    def __call__(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        if func is Tensor.masked_fill:
            self.masked = _Masked(args[0], args[1], out)
        elif func is torch.softmax:
            site = next(self.sites)
            for edit in self.edits:
                plan = edit.plans.get(site)
                if plan is not None:
                    self._edit(edit, plan, out)
        return out

    def _edit(self, edit: RowEdits, plan: Plan, weights: Tensor) -> None:
        """Replace the weights of some rows of ``[row, head, 1, key]`` with edited ones."""
        keys = edit.text if plan.site.block == "self" else edit.memory
        mine = (edit.rows, slice(None), slice(None), slice(-keys, None))
        own = weights[mine]
        if plan.shapes_scores:
            hidden = self.masked.hidden.expand(self.masked.base.shape)[mine]
            query = torch.tensor([edit.text - 1], device=weights.device)
            columns = hidden.all(-2, keepdim=True)
            base, given = self.masked.base[mine], self.masked.given[mine]
            own = plan.softmax(base, given, hidden, columns, query, keys)[1].to(weights.dtype)
        weights[mine] = plan.scaled(own)


def _nothing() -> _Masked:
    empty = torch.empty(0, device="cpu")
    return _Masked(empty, empty, empty)
