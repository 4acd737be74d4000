"""The edits of one attention block: what they do to its scores and weights.

`HeadPlan.at` finds them, `Plan.softmax` is where they become numbers: called by
`handlers/softmax.py`, by `handlers/fused_attention.py`, and by `handlers/weighted_sum.py` for an
attention that only its product with the values gave away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from ..core.interventions import (
    EDITS,
    Amount,
    Causal,
    Edit,
    HidingEdit,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
)
from ..core.masking import hidden as hides
from ..core.numerics import COLD
from ..core.sites import Site

Kind = TypeVar("Kind", bound=Edit)
SCORE_EDITS = tuple(kind for kind in EDITS if kind.acts_on == "scores")
ATTENTION_EDITS = tuple(kind for kind in EDITS if kind.acts_on in ("scores", "weights"))


def matching(intervention: Intervention, site: Site, heads: int, first: int) -> list[Edit]:
    """The attention edits that name this block, also those that a later one overrides."""
    edits = named(intervention, site)
    places = [replace(site, head=first + head) for head in range(heads)] if edits else []
    return [edit for edit in edits if any(edit.matches(place) for place in places)]


def named(intervention: Intervention, site: Site) -> list[Edit]:
    """The attention edits that name a block, whatever its heads."""
    return [e for e in intervention if isinstance(e, ATTENTION_EDITS) and e.matches(site)]


@dataclass(frozen=True)
class HeadPlan:
    """The edits of one head, one of each kind at most."""

    found: dict[type[Edit], Edit]

    @classmethod
    def at(cls, intervention: Intervention, site: Site) -> HeadPlan:
        """The edits that act on a head: of each kind the last one that matches, if it does any."""
        here = (e for e in intervention if isinstance(e, ATTENTION_EDITS) and e.matches(site))
        last = {type(edit): edit for edit in here}
        return cls({kind: edit for kind, edit in last.items() if not edit.idle})

    def edit(self, kind: type[Kind]) -> Kind | None:
        """The edit of a kind, None where this head has none."""
        found = self.found.get(kind)
        return found if isinstance(found, kind) else None

    def amount(self, kind: type[Amount], otherwise: float) -> float:
        """The number of an edit that says how much."""
        edit = self.edit(kind)
        return otherwise if edit is None else edit.value

    @property
    def edits(self) -> list[Edit]:
        return list(self.found.values())

    @property
    def lifts(self) -> bool:
        """Whether the model's own causal mask is lifted."""
        causal = self.edit(Causal)
        return causal is not None and not causal.on

    def hides(self, queries: Tensor, keys: int, first: int) -> Tensor | None:
        """Cells that the edits hide, bool ``[query, key]``; ``queries`` are absolute positions, and
        so is ``first``, that of the first key."""
        query, key = queries[:, None], torch.arange(first, first + keys, device=queries.device)
        hidden = torch.zeros(len(queries), keys, dtype=torch.bool, device=queries.device)
        for edit in self.edits:
            if isinstance(edit, HidingEdit):
                hidden |= hides(edit, query, key)
        return hidden if hidden.any() else None


def from_largest(scores: Tensor) -> Tensor:
    """Return scores less the largest of their row, which changes no softmax: the least number of a
    type can then be divided."""
    least = torch.finfo(scores.dtype).min
    return scores - scores.amax(-1, keepdim=True).clamp(min=least)


class Plan:
    """All edits of one block: a plan for each head. Acts on ``[batch, head, query, key]``."""

    def __init__(self, heads: list[HeadPlan], site: Site):
        self.heads, self.site, self.first_key = heads, site, 0
        self.unsure = False  # whether padding and a lifted causal mask could not be told apart

    @classmethod
    def at(cls, intervention: Intervention, site: Site, heads: int, first: int = 0) -> Plan | None:
        """The plan of a block's heads from ``first`` on, None if no edit touches it."""
        if not named(intervention, site):
            return None
        plans = [
            HeadPlan.at(intervention, replace(site, head=head))
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

    def amounts(self, kind: type[Amount], otherwise: float) -> list[float]:
        """The number that each head's edit of a kind says, ``otherwise`` where it has none."""
        return [plan.amount(kind, otherwise) for plan in self.heads]

    def per_head(self, values: list[float], like: Tensor) -> Tensor:
        """A number a head, to be broadcast over ``[batch, head, query, key]``."""
        return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None, None]

    def edited_mask(self, queries: Tensor, keys: int, extra: int) -> Tensor:
        """Cells the edits hide, bool ``[head, query, key + extra]``; sinks stay visible."""
        rows = []
        empty = torch.zeros(len(queries), keys + extra, dtype=torch.bool, device=queries.device)
        for plan in self.heads:
            hidden = plan.hides(queries, keys, self.first_key)
            rows.append(empty if hidden is None else torch.nn.functional.pad(hidden, (0, extra)))
        return torch.stack(rows)

    def lifted(self, hidden: Tensor, columns: Tensor, queries: Tensor, keys: int) -> Tensor:
        """Return the model's mask where the causal part is lifted: padding columns alone stay, and
        rows that see no earlier key of those that others see: it is no causal mask that hides
        these."""
        lift = torch.tensor([plan.lifts for plan in self.heads], device=hidden.device)
        lift = lift[:, None, None]
        if not lift.any():
            return hidden
        place = torch.arange(self.first_key, self.first_key + keys, device=hidden.device)
        earlier = place <= queries[:, None]
        closed, padding = hidden[..., :keys].all(-1, keepdim=True), columns[..., :keys]
        told = (earlier & ~closed).any(-2, keepdim=True) | ~earlier.any(-2, keepdim=True)
        self.unsure = self.unsure or bool((lift & padding & ~told).any())
        closed = closed & (earlier & ~padding).any(-1, keepdim=True)
        return torch.where(lift & ~closed, columns.expand_as(hidden), hidden)

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
        own = self.lifted(hidden, columns, queries, keys)
        edits = self.edited_mask(queries, keys, extra)
        # Where a row hides all keys by low numbers, the softmax compares these as any others. Where
        # it hides them by minus infinity, it shows what the model did. What an edit empties is 0.
        ruined = own.all(-1, keepdim=True)
        endless = given == float("-inf")
        blocked = torch.where(ruined, edits | endless, own | edits)
        emptied = blocked.all(-1, keepdim=True) & ~(ruined & endless.all(-1, keepdim=True))
        changed = self.changed_scores(torch.where(ruined, from_largest(given), scores))
        edited = changed.masked_fill(blocked, float("-inf"))
        weights = torch.softmax(edited.to(torch.promote_types(edited.dtype, torch.float32)), -1)
        weights = self.hardened(weights, edited, ruined)
        weights = weights.masked_fill(emptied, 0.0)
        shown = torch.where(ruined, given.masked_fill(edits, float("-inf")), edited)
        return shown, self.uniform(weights, blocked)

    def changed_scores(self, scores: Tensor) -> Tensor:
        """The scores after the edits that change them, before any mask: here temperature divides.

        Heads that are cold (temperature 0) keep theirs: see `hardened`.
        """
        values = self.amounts(Temperature, 1.0)
        return scores / self.per_head([1.0 if v < COLD else v for v in values], scores)

    def hardened(self, weights: Tensor, scores: Tensor, ruined: Tensor) -> Tensor:
        """Cold heads look at the key with the largest score alone; in rows whose keys the model
        hides all, at all that share the largest."""
        cold = [value < COLD for value in self.amounts(Temperature, 1.0)]
        if not any(cold):
            return weights
        hard = torch.tensor(cold, device=scores.device)[:, None, None]
        best = torch.zeros_like(weights).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)
        tied = (scores == scores.amax(-1, keepdim=True)).to(weights.dtype)
        best = torch.where(ruined, tied / tied.sum(-1, keepdim=True), best)
        return torch.where(hard & ~weights.isnan(), best, weights)

    def uniform(self, weights: Tensor, blocked: Tensor) -> Tensor:
        """Heads that are told to look at all visible keys alike."""
        alike = [plan.edit(UniformHead) is not None for plan in self.heads]
        if not any(alike):
            return weights
        uniform = torch.tensor(alike, device=weights.device)
        visible = (~blocked).to(weights.dtype)
        even = visible / visible.sum(-1, keepdim=True).clamp(min=1.0)
        return torch.where(uniform[:, None, None] & ~weights.isnan(), even, weights)

    def scaled(self, weights: Tensor) -> Tensor:
        """The weights with the heads scaled that an edit scales."""
        if not any(plan.edit(ScaleHead) for plan in self.heads):
            return weights
        return weights * self.per_head(self.amounts(ScaleHead, 1.0), weights)

    def custom(
        self, weights: Tensor, unmasked: Tensor, queries: Tensor, path: str, exponential: bool
    ) -> Tensor:
        """Edits on weights that no softmax made: rows that sum to 1 are re-normalised.

        Temperature is ``w^(1/t)`` renormalised, which equals the edited softmax where the weights
        are an ``exponential`` of their scores; ``unmasked`` are the weights without the model's
        masks, each row up to a factor.

        Raises:
            ValueError: an edit of the scores where rows do not sum to 1, or are no exponential of
                their scores; names the module.
        """
        if not self.shapes_scores:
            return self.scaled(weights)
        rounding = max(1e-4, 4 * torch.finfo(weights.dtype).eps)
        whole = ((weights.sum(-1) - 1).abs() <= rounding).all()  # NaN is not
        if not whole or (weights < 0).any():
            raise ValueError(
                f"The attention in {path or 'this module'} is no softmax and its rows do not sum "
                "to 1, so temperature and masks have no meaning there. Heads can be scaled."
            )
        if not exponential:
            raise ValueError(
                f"The weights of the attention in {path or 'this module'} could not be told to be "
                "a softmax of their scores (sparsemax and entmax are none), so temperature and "
                "masks cannot be applied there. Heads can be scaled."
            )
        logs, hidden = unmasked.log(), weights == 0
        columns = hidden.all(-2, keepdim=True)
        _, edited = self.softmax(logs, logs, hidden, columns, queries, weights.shape[-1])
        return self.scaled(edited.to(weights.dtype))
