"""Tiles of PyTorch's fused attention, from the rows of its formula."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ...core.apply_edits import Plan
from ..donations import PATTERNS
from ..records import AttentionRecord
from ..state import CaptureState
from ..tiles import Keeper
from ..tiles.bias import Small
from .weighted_sum import LENT

CLOSED = "an edit changes rows whose keys are all hidden by numbers, not by queries and keys"


class Mask(Protocol):
    """Mask and bias of a fused call: `fused_attention.Mask`."""

    causal: bool
    hidden: Tensor | None
    low: Tensor | None

    def rows(self, first: int, last: int, keys: int, like: Tensor) -> Tensor | None: ...
    def small(self, state: CaptureState, lifted: bool) -> Small | None: ...


def keeper(
    state: CaptureState,
    record: AttentionRecord,
    plan: Plan | None,
    q: Tensor,
    k: Tensor,
    scale: float,
    mask: Mask,
) -> Keeper | None:
    """Return the collector of tiles, if they are requested and possible."""
    if not state.request.tiles(record.site):
        return None
    if state.giving.of(PATTERNS, record.site):
        record.untiled = LENT
        return None
    if plan is not None and plan.shapes_scores and mask.low is not None:
        record.untiled = CLOSED
        return None
    try:
        lifted = plan is not None and any(one.lifts for one in plan.heads)
        return Keeper(q[0], k[0], float(scale), None, mask.small(state, lifted), plan)
    except ValueError as error:
        record.untiled = f"its scores {error}"
        return None


def add_rows(
    tiles: Keeper, plan: Plan | None, mask: Mask, scores: Tensor, weights: Tensor, rows: slice
) -> None:
    """Add rows to the tiles: their weights before heads are scaled, and their visible keys."""
    w = weights[0].detach()
    if plan is not None and plan.shapes_scores:
        tiles.add(w, rows.start, scores[0] > float("-inf"))
    elif mask.hidden is None:
        tiles.add(w, rows.start, None, causal=mask.causal)
    else:
        hidden = mask.rows(rows.start, rows.stop, w.shape[2], w)
        assert hidden is not None
        mine = hidden[0] if hidden.dim() == 4 else hidden
        visible = ~mine.expand(len(mine), *w.shape[1:])
        if mask.low is not None:  # keys hidden by a low number are visible if no others are
            apart = (w != w[..., :1]).any(-1, keepdim=True)
            visible = visible | (apart & ~visible.any(-1, keepdim=True))
        tiles.add(w, rows.start, visible)
