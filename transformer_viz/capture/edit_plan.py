"""The edits of one attention block: what they do to its scores and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from ..core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from ..core.masking import hidden as hides
from ..core.numerics import COLD
from ..core.sites import Site

Kind = TypeVar("Kind", bound=Edit)
SCORE_EDITS = (Temperature, Causal, Window, BlockKeys, BlockEdges, UniformHead)
ATTENTION_EDITS = (*SCORE_EDITS, ScaleHead)


def matching(intervention: Intervention, site: Site, heads: int, first: int) -> list[Edit]:
    """The attention edits that name this block, also those that a later one overrides."""
    places = [Site(site.stack, site.block, site.layer, first + head) for head in range(heads)]
    return [
        edit
        for edit in intervention
        if isinstance(edit, ATTENTION_EDITS)
        and any(edit.matches(place) for place in places)
        and not (isinstance(edit, Causal) and site.block != "self")
    ]


@dataclass(frozen=True)
class HeadPlan:
    """The edits of one head, one of each kind at most."""

    temperature: Temperature | None
    scale: ScaleHead | None
    uniform: UniformHead | None
    causal: Causal | None
    window: Window | None
    keys: BlockKeys | None
    edges: BlockEdges | None

    @classmethod
    def at(cls, intervention: Intervention, site: Site) -> HeadPlan:
        def find(kind: type[Kind]) -> Kind | None:
            found = intervention.find(kind, site)
            return found if isinstance(found, kind) else None

        causal = find(Causal) if site.block == "self" else None
        uniform, window = find(UniformHead), find(Window)
        return cls(
            find(Temperature),
            find(ScaleHead),
            # these two may say "not here": a narrow place under a wide edit, as if there were none
            uniform if uniform is not None and uniform.on else None,
            causal,
            window if window is not None and window.radius is not None else None,
            find(BlockKeys),
            find(BlockEdges),
        )

    @property
    def edits(self) -> list[Edit]:
        return [edit for edit in vars(self).values() if edit is not None]

    def hides(self, queries: Tensor, keys: int, first: int) -> Tensor | None:
        """Cells that the edits hide, bool ``[query, key]``; ``queries`` are absolute positions, and
        so is ``first``, that of the first key."""
        query, key = queries[:, None], torch.arange(first, first + keys, device=queries.device)
        hidden = torch.zeros(len(queries), keys, dtype=torch.bool, device=queries.device)
        for edit in (self.causal, self.window, self.keys, self.edges):
            if edit is not None:
                hidden |= hides(edit, query, key)
        return hidden if hidden.any() else None


class Plan:
    """All edits of one block: a plan for each head. Acts on ``[batch, head, query, key]``."""

    def __init__(self, heads: list[HeadPlan], site: Site):
        self.heads, self.site, self.first_key = heads, site, 0

    @classmethod
    def at(cls, intervention: Intervention, site: Site, heads: int, first: int = 0) -> Plan | None:
        """The plan of a block's heads from ``first`` on, None if no edit touches it."""
        if not any(isinstance(edit, ATTENTION_EDITS) for edit in intervention):
            return None
        plans = [
            HeadPlan.at(intervention, Site(site.stack, site.block, site.layer, head))
            for head in range(first, first + heads)
        ]
        return cls(plans, site) if any(plan.edits for plan in plans) else None

    @property
    def edits(self) -> list[Edit]:
        return [edit for plan in self.heads for edit in plan.edits]

    @property
    def shapes_scores(self) -> bool:
        """Whether any edit needs the scores (and not the weights alone)."""
        return any(isinstance(edit, SCORE_EDITS) for edit in self.edits)

    def per_head(self, values: list[float], like: Tensor) -> Tensor:
        return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None, None]

    def edited_mask(self, queries: Tensor, keys: int, extra: int) -> Tensor:
        """Cells the edits hide, bool ``[head, query, key + extra]``; sinks stay visible."""
        rows = []
        empty = torch.zeros(len(queries), keys + extra, dtype=torch.bool, device=queries.device)
        for plan in self.heads:
            hidden = plan.hides(queries, keys, self.first_key)
            rows.append(empty if hidden is None else torch.nn.functional.pad(hidden, (0, extra)))
        return torch.stack(rows)

    def lifted(self, hidden: Tensor, columns: Tensor) -> Tensor:
        """The model's mask where the causal part is lifted: padding columns alone stay."""
        lift = torch.tensor(
            [plan.causal is not None and not plan.causal.on for plan in self.heads],
            device=hidden.device,
        )[:, None, None]
        return torch.where(lift, columns.expand_as(hidden), hidden) if lift.any() else hidden

    def softmax(
        self,
        scores: Tensor,
        given: Tensor,
        hidden: Tensor,
        columns: Tensor,
        queries: Tensor,
        keys: int,
    ) -> tuple[Tensor, Tensor]:
        """Edited scores and weights ``[batch, head, query, key]``.

        ``scores`` are complete but unmasked, ``given`` what the model would have handed to its
        softmax, ``hidden`` its own mask, ``columns`` the part of it that hides whole columns
        ``[batch, head, 1, key]``, ``queries`` absolute query positions, ``keys`` how many of the
        last dimension are words (the rest are sinks).
        """
        extra = scores.shape[-1] - keys
        own = self.lifted(hidden, columns)
        blocked = own | self.edited_mask(queries, keys, extra)
        # Rows that the model itself empties show what the model did; those an edit empties are 0.
        ruined = own.all(-1, keepdim=True)
        emptied = blocked.all(-1, keepdim=True) & ~ruined
        values = [1.0 if p.temperature is None else p.temperature.value for p in self.heads]
        hard = torch.tensor([v < COLD for v in values], device=scores.device)[:, None, None]
        divided = scores / self.per_head([1.0 if v < COLD else v for v in values], scores)
        edited = torch.where(ruined, given, divided.masked_fill(blocked, float("-inf")))
        weights = torch.softmax(edited.float(), -1)
        if hard.any():
            best = torch.zeros_like(weights).scatter_(-1, edited.argmax(-1, keepdim=True), 1.0)
            weights = torch.where(hard & ~ruined, best, weights)
        weights = weights.masked_fill(emptied, 0.0)
        return edited, self.uniform(weights, blocked)

    def uniform(self, weights: Tensor, blocked: Tensor) -> Tensor:
        """Heads that are told to look at all visible keys alike."""
        uniform = torch.tensor([p.uniform is not None for p in self.heads], device=weights.device)
        if not uniform.any():
            return weights
        visible = (~blocked).to(weights.dtype)
        even = visible / visible.sum(-1, keepdim=True).clamp(min=1.0)
        return torch.where(uniform[:, None, None], even, weights)

    def scaled(self, weights: Tensor) -> Tensor:
        """The weights with the heads scaled that an edit scales."""
        if not any(plan.scale for plan in self.heads):
            return weights
        return weights * self.per_head(
            [1.0 if plan.scale is None else plan.scale.value for plan in self.heads], weights
        )

    def custom(self, weights: Tensor, unmasked: Tensor, queries: Tensor, path: str) -> Tensor:
        """Edits on weights that no softmax made: rows that sum to 1 are re-normalised.

        Temperature is ``w^(1/t)`` renormalised, which equals the edited softmax; ``unmasked`` are
        the weights without the model's masks, each row up to a factor.

        Raises:
            ValueError: an edit of the scores where rows do not sum to 1; names the module.
        """
        if not self.shapes_scores:
            return self.scaled(weights)
        if not torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-4) or (weights < 0).any():
            raise ValueError(
                f"The attention in {path or 'this module'} is no softmax and its rows do not sum "
                "to 1, so temperature and masks have no meaning there. Heads can be scaled."
            )
        logs, hidden = unmasked.log(), weights == 0
        columns = hidden.all(-2, keepdim=True)
        _, edited = self.softmax(logs, logs, hidden, columns, queries, weights.shape[-1])
        return self.scaled(edited.to(weights.dtype))
