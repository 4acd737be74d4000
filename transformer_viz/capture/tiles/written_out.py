"""Tiles of a model with an explicit matrix, kept only if they reproduce that matrix.

Such a model computes ``[head, query, key]`` in any case; only the data kept after the layer is
small. Anything may happen between q·k and the softmax. The weights are therefore recomputed from
the factors, by row blocks, and compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...core.apply_edits import Plan
from ...core.numerics import MASK_SCORE, VERY_LOW
from ..axes.layout import Layout
from ..records import AttentionRecord
from ..roles import Scores
from ..score_scale import scale_of
from ..statistics import at_once
from .bias import small
from .factors import Factors, Keeper, lone_keys

BLOCK = 1_000_000  # cells processed at once
CLOSE, MOST_OFF = 2e-6, 1e-4  # of two weights: for scores of size 0, and for any
NO_PRODUCT = "its scores are no product of queries and keys (additive, or by location)"
NO_SOFTMAX = "its weights are no softmax of queries times keys"


@dataclass(eq=False)
class Draft:
    """Data of an attention at its softmax.

    ``scores`` are its input ``[batch, head, query, key]``, q and k likewise, and the edits.
    """

    scores: Tensor | None
    q: Tensor | None
    k: Tensor | None
    role: Scores
    layout: Layout
    plan: Plan | None


def confirmed(record: AttentionRecord, draft: Draft, weights: Tensor) -> Factors | str:
    """Return the factors of an attention after its product with v, or the reason for none.

    The reason continues a sentence after a site and a colon.
    """
    if draft.scores is None:
        return NO_SOFTMAX
    if draft.role.q is None or draft.q is None or draft.k is None:
        return NO_PRODUCT
    scale, cap = scale_of(draft.role)
    if scale is None:
        return "its scores are queries times keys and then more than one number"
    w = weights[0].detach()
    heads, queries, keys = w.shape
    k = lone_keys(draft.k[0])
    expected = (heads, queries, keys)
    if (len(draft.q[0]), draft.q.shape[2], k.shape[1]) != expected or heads % len(k):
        return "its weights have other heads, rows or columns than its queries and keys"
    scores = draft.scores[0].detach()
    if scores.shape[:2] != w.shape[:2] or scores.shape[2] < keys:
        return "its weights have other heads, rows or columns than its scores"
    try:
        keeper = Keeper(draft.q[0], k, scale, cap, _bias(draft, w), draft.plan)
    except ValueError as error:
        return f"its scores {error}"
    off = _collect(keeper, w, scores)
    if off:
        return off
    found = keeper.result(record.first_head, record.first_row)
    return replace(found, sinks=scores.shape[2] > keys)


def _bias(draft: Draft, w: Tensor) -> tuple[str, Tensor] | None:
    if draft.role.bias is None:
        return None
    bias = draft.layout.canonical(draft.role.bias.expand(tuple(draft.layout.shape)))[0]
    return small(bias.detach()[..., : w.shape[-1]], w != 0)


def _collect(keeper: Keeper, w: Tensor, scores: Tensor) -> str:
    """Add all rows; return a reason if the factors do not reproduce them."""
    heads, queries, keys = w.shape
    gain = torch.tensor(keeper.gain, device=w.device)[:, None, None]
    low = max(VERY_LOW, torch.finfo(scores.dtype).min / 2)
    step = max(1, at_once(BLOCK, w.device) // (heads * keys))
    masked = bool(((w == 0) & (scores[..., :keys] <= MASK_SCORE)).any()) or bool(
        (scores.amax(-1) <= low).any()
    )
    for first in range(0, queries, step):
        last = min(first + step, queries)
        mine, given = w[:, first:last].float(), scores[:, first:last]
        visible = None
        if masked:
            visible = ~((mine == 0) & (given[..., :keys] <= MASK_SCORE))
            visible &= ~(given.amax(-1, keepdim=True) <= low)
        plain = torch.where(gain == 0, mine, mine / gain)
        keeper.add(plain, first, visible)
        made = torch.exp((keeper.block(first, last) - keeper.sums[-1][..., None]).clamp(max=0))
        if visible is not None:
            made = made.masked_fill(~visible, 0) + keeper.blanks[-1][..., None]
        if keeper.only:
            key = torch.arange(keys, device=w.device)
            only = keeper.only[-1][..., None]
            made = torch.where(only >= 0, (key == only).double(), made)
        off = float((made * gain - mine).nan_to_num(0.0).abs().max())
        seen = given[given > MASK_SCORE]
        size = float(seen.abs().max()) if seen.numel() else 0.0
        allowed = CLOSE + 4 * torch.finfo(scores.dtype).eps * size
        if off > min(allowed, MOST_OFF):
            return (
                f"queries times keys give weights that are up to {off:.1g} away from those that it "
                "used (its scores have a further part that the words make, or are rounded)"
            )
    return ""
