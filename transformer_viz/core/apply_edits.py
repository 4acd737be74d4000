"""Apply the edits of attention to its scores and weights: torch tensors or numpy arrays.

`HeadPlan.at` finds the edits of one head. The effect of each edit on numbers is written once, here,
for the probe and for the explanation of a map. `Plan.softmax` computes the edited weights. Its
callers are `capture/handlers/softmax.py`, `capture/handlers/fused_attention.py` and
`capture/handlers/weighted_sum.py`, the last for attention detected by its product with the values.

`Array` stands for an array of either library; `numerics.namespace` returns the functions of that
library.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, TypeAlias, TypeVar

import numpy as np

from .interventions import (
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
from .numerics import COLD, namespace, softmax
from .sites import Site

Array: TypeAlias = Any  # a tensor of torch, which core does not import, or a numpy array
Kind = TypeVar("Kind", bound=Edit)
SCORE_EDITS = tuple(kind for kind in EDITS if kind.acts_on == "scores")
ATTENTION_EDITS = tuple(kind for kind in EDITS if kind.acts_on in ("scores", "weights"))
#: Kinds of edits that hide keys, in the order in which a reason is looked up.
HIDING = tuple(kind for kind in EDITS if issubclass(kind, HidingEdit))


def matching(intervention: Intervention, site: Site, heads: int, first: int) -> list[Edit]:
    """Return the attention edits that name this block, including those overridden later."""
    mine = (None, *range(first, first + heads))
    return [edit for edit in named(intervention, site) if edit.head in mine]


def named(intervention: Intervention, site: Site) -> list[Edit]:
    """Return the attention edits that name a block, for any of its heads."""
    return [e for e in intervention if isinstance(e, ATTENTION_EDITS) and e.matches(site)]


def hidden(edits: Iterable[HidingEdit], query: Any, key: Any) -> Any:
    """Return True where any of the edits hides ``key`` from ``query``: bool, or an array of bool.

    Args:
        query, key: Absolute positions from 0: whole numbers, or index arrays of shapes that
            broadcast (``[query, 1]`` and ``[key]``), both of numpy or both of torch. The result has
            their broadcast shape.
    """
    nothing = (query != query) | (key != key)
    return reduce(operator.or_, (edit.hides(query, key) for edit in edits), nothing)


@dataclass(frozen=True)
class HeadPlan:
    """Edits of one head, at most one of each kind."""

    found: dict[type[Edit], Edit]

    @classmethod
    def at(cls, intervention: Intervention, site: Site) -> HeadPlan:
        """Return the edits that act on a head."""
        return cls.of(named(intervention, site))

    @classmethod
    def of(cls, edits: Iterable[Edit]) -> HeadPlan:
        """Return the active edits of a head: the last one of each kind, if it has an effect.

        An idle edit exempts its site from a wider edit of its kind, and is left out.
        """
        last = {type(edit): edit for edit in edits}
        return cls({kind: edit for kind, edit in last.items() if not edit.idle})

    def edit(self, kind: type[Kind]) -> Kind | None:
        """Return the edit of a kind, or None."""
        found = self.found.get(kind)
        return found if isinstance(found, kind) else None

    def amount(self, kind: type[Amount], otherwise: float) -> float:
        """Return the value of an `Amount` edit, or ``otherwise`` if the head has none."""
        edit = self.edit(kind)
        return otherwise if edit is None else edit.value

    @cached_property
    def hiding(self) -> tuple[HidingEdit, ...]:
        """Edits that hide keys, in the order of `HIDING`."""
        found = (self.found.get(kind) for kind in HIDING)
        return tuple(edit for edit in found if isinstance(edit, HidingEdit))

    def hidden_by(self, query: int, key: int) -> Edit | None:
        """Return the first edit that hides a key from a query, or None."""
        return next((edit for edit in self.hiding if edit.hides(query, key)), None)

    @property
    def lifts(self) -> bool:
        """True if the model's own causal mask is lifted."""
        causal = self.edit(Causal)
        return causal is not None and not causal.on

    @property
    def uniform(self) -> bool:
        """True if the head attends to all visible keys equally."""
        return self.edit(UniformHead) is not None

    @property
    def temperature(self) -> float:
        """Temperature of the softmax: 1 without an edit, 0 below `COLD`."""
        value = self.amount(Temperature, 1.0)
        return 0.0 if value < COLD else value

    @property
    def divisor(self) -> float:
        """Divisor of the scores; at temperature 0 they are left unchanged."""
        return self.temperature or 1.0

    @property
    def hard(self) -> bool:
        """True if the head attends only to the key with the largest score."""
        return not self.temperature and not self.uniform

    @property
    def sharpness(self) -> float:
        """Factor of scores whose plain softmax gives the weights, unless the head is `hard`."""
        return 0.0 if self.uniform else 1 / self.divisor

    @property
    def gain(self) -> float:
        """Factor of the weights."""
        return self.amount(ScaleHead, 1.0)


def even_shares(visible: Array) -> Array:
    """Return weights ``[..., key]`` equal for all visible keys; 0 in rows without any.

    ``visible`` holds 1 and 0, in the dtype of the weights.
    """
    return visible / visible.sum(-1, keepdims=True).clip(min=1.0)


def at_largest(scores: Array) -> Array:
    """Return a bool mask of the largest score of each row, the first of equal ones."""
    key = namespace(scores).arange(scores.shape[-1], device=scores.device)
    return key == scores.argmax(-1, keepdims=True)


def from_largest(scores: Array) -> Array:
    """Return scores minus the maximum of their row, which leaves the softmax unchanged.

    The lowest number of a dtype can then be divided.
    """
    xp = namespace(scores)
    return scores - xp.amax(scores, -1, keepdims=True).clip(min=xp.finfo(scores.dtype).min)


class Plan:
    """Edits of one block: a plan for each head. Acts on ``[batch, head, query, key]``."""

    def __init__(self, heads: list[HeadPlan], site: Site):
        self.heads, self.site, self.first_key = heads, site, 0
        self.unsure = False  # True if padding and a lifted causal mask are indistinguishable

    @classmethod
    def at(cls, intervention: Intervention, site: Site, heads: int, first: int = 0) -> Plan | None:
        """Return the plan of a block's heads from ``first`` on, or None if no edit acts on it."""
        edits = named(intervention, replace(site, head=None))
        if not edits:
            return None
        plans = [
            HeadPlan.of(edit for edit in edits if edit.head in (None, head))
            for head in range(first, first + heads)
        ]
        return cls(plans, site) if any(plan.found for plan in plans) else None

    @property
    def shapes_scores(self) -> bool:
        """True if any edit needs the scores (and not only the weights)."""
        return any(issubclass(kind, SCORE_EDITS) for plan in self.heads for kind in plan.found)

    def per_head(self, values: list[Any], like: Array) -> Array:
        """Return one number per head, to be broadcast over ``[batch, head, query, key]``."""
        xp = namespace(like)
        make = xp.asarray if xp is np else xp.tensor  # torch.asarray fails on some devices
        return make(values, dtype=like.dtype, device=like.device)[:, None, None]

    def key_positions(self, keys: int, like: Array) -> Array:
        """Return the absolute positions of the keys, ``[key]``."""
        first = self.first_key
        return namespace(like).arange(first, first + keys, device=like.device)

    def edited_mask(self, queries: Array, keys: int, extra: int) -> Array:
        """Return the cells that the edits hide, bool ``[head, query, key + extra]``.

        Sinks, the ``extra`` cells after the keys, stay visible.
        """
        xp, key = namespace(queries), self.key_positions(keys, queries)
        shape = len(self.heads), len(queries), keys + extra
        mask = xp.zeros(shape, dtype=xp.bool, device=queries.device)
        for head, plan in enumerate(self.heads):
            if plan.hiding:
                mask[head, :, :keys] = hidden(plan.hiding, queries[:, None], key)
        return mask

    def lifted(self, hidden: Array, columns: Array, queries: Array, keys: int) -> Array:
        """Return the model's mask with the causal part lifted.

        Only padding columns stay hidden, and rows that see none of the earlier keys visible to
        other rows: a causal mask does not hide these.
        """
        lifts = [plan.lifts for plan in self.heads]
        if not any(lifts):
            return hidden
        lift = self.per_head(lifts, hidden)
        earlier = self.key_positions(keys, hidden) <= queries[:, None]
        closed, padding = hidden[..., :keys].all(-1, keepdims=True), columns[..., :keys]
        told = (earlier & ~closed).any(-2, keepdims=True) | ~earlier.any(-2, keepdims=True)
        self.unsure = self.unsure or bool((lift & padding & ~told).any())
        closed = closed & (earlier & ~padding).any(-1, keepdims=True)
        return namespace(hidden).where(lift & ~closed, columns, hidden)

    def softmax(
        self,
        scores: Array,
        given: Array,
        hidden: Array,
        columns: Array,
        queries: Array,
        keys: int,
    ) -> tuple[Array, Array]:
        """Return edited scores and weights ``[batch, head, query, key]``.

        Args:
            scores: Complete but unmasked scores.
            given: The model's own input to its softmax.
            hidden: The model's own mask.
            columns: The part of the mask that hides whole columns, ``[batch, head, 1, key]``.
            queries: Absolute query positions.
            keys: Number of tokens in the last dimension (the rest are sinks).
        """
        xp, extra = namespace(scores), scores.shape[-1] - keys
        own = self.lifted(hidden, columns, queries, keys)
        edits = self.edited_mask(queries, keys, extra)
        # Low numbers in a fully hidden row are compared by the softmax like any others. With minus
        # infinity the row shows the model's own result. Rows emptied by an edit are 0.
        ruined = own.all(-1, keepdims=True)
        endless = given == -np.inf
        blocked = xp.where(ruined, edits | endless, own | edits)
        emptied = blocked.all(-1, keepdims=True) & ~(ruined & endless.all(-1, keepdims=True))
        changed = self.changed_scores(xp.where(ruined, from_largest(given), scores))
        edited = xp.where(blocked, -np.inf, changed)
        weights = _softmax(edited)
        weights = self.hardened(weights, edited, ruined)
        weights = xp.where(emptied, 0.0, weights)
        shown = xp.where(ruined, xp.where(edits, -np.inf, given), edited)
        return shown, self.uniform(weights, blocked)

    def changed_scores(self, scores: Array) -> Array:
        """Return the scores divided by the temperature of each head, before any mask."""
        return scores / self.per_head([plan.divisor for plan in self.heads], scores)

    def hardened(self, weights: Array, scores: Array, ruined: Array) -> Array:
        """Return weights in which hard heads attend only to the key with the largest score.

        In rows whose keys the model hides completely, they attend to all keys that share the
        largest score.
        """
        hard = [plan.hard for plan in self.heads]
        if not any(hard):
            return weights
        xp = namespace(weights)
        tied = _cast(scores == xp.amax(scores, -1, keepdims=True), weights.dtype)
        best = _cast(at_largest(scores), weights.dtype)
        best = xp.where(ruined, tied / tied.sum(-1, keepdims=True), best)
        return xp.where(self.per_head(hard, ruined) & ~xp.isnan(weights), best, weights)

    def uniform(self, weights: Array, blocked: Array) -> Array:
        """Return weights in which uniform heads attend to all visible keys equally."""
        alike = [plan.uniform for plan in self.heads]
        if not any(alike):
            return weights
        xp, even = namespace(weights), even_shares(_cast(~blocked, weights.dtype))
        return xp.where(self.per_head(alike, blocked) & ~xp.isnan(weights), even, weights)

    def scaled(self, weights: Array) -> Array:
        """Return the weights with the factor of `ScaleHead` edits applied."""
        if not any(plan.edit(ScaleHead) for plan in self.heads):
            return weights
        return weights * self.per_head([plan.gain for plan in self.heads], weights)

    def custom(
        self, weights: Array, unmasked: Array, queries: Array, path: str, exponential: bool
    ) -> Array:
        """Return edited weights that no softmax produced; rows that sum to 1 are renormalised.

        Temperature is ``w^(1/t)`` renormalised. It equals the edited softmax if the weights are an
        ``exponential`` of their scores. ``unmasked`` are the weights without the model's masks,
        each row up to a factor.

        Raises:
            ValueError: An edit needs the scores, but rows do not sum to 1 or are no exponential of
                their scores. The message names the module.
        """
        if not self.shapes_scores:
            return self.scaled(weights)
        rounding = max(1e-4, 4 * namespace(weights).finfo(weights.dtype).eps)
        whole = (abs(weights.sum(-1) - 1) <= rounding).all()  # NaN is not
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
        logs, hidden = namespace(unmasked).log(unmasked), weights == 0
        columns = hidden.all(-2, keepdims=True)
        _, edited = self.softmax(logs, logs, hidden, columns, queries, weights.shape[-1])
        return self.scaled(_cast(edited, weights.dtype))


def _softmax(scores: Array) -> Array:
    """Return the softmax over keys, in float32 or wider."""
    xp = namespace(scores)
    wide = _cast(scores, xp.promote_types(scores.dtype, xp.float32))
    return softmax(wide) if xp is np else xp.softmax(wide, -1)


def _cast(x: Array, dtype: Any) -> Array:
    return x.astype(dtype) if isinstance(x, np.ndarray) else x.to(dtype)
