"""Site of an attention that starts: its stack, layer and heads, and the data to keep of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core.apply_edits import Plan, matching
from ..core.numerics import MASK_SCORE
from .axes.layout import Layout
from .records import AttentionRecord
from .refusals import refuse_checkpointing
from .roles import Mark, Scores
from .score_scale import scale_of
from .site_numbering import Seen, Source
from .state import CaptureState
from .tiles.written_out import Draft


def heads_of(
    state: CaptureState, path: str, labels: tuple[str, ...], x: Tensor, origin: frozenset[int]
) -> int | None:
    """Return the heads in a merged dimension: from the module, or from the batch of the input."""
    if "bh" not in labels:
        return None
    merged_size = x.shape[labels.index("bh")]
    named = state.names.number(path)
    if named and merged_size % named == 0:
        return named
    sizes = state.lineage.token_lengths(origin)
    batches = [n for n in sizes if merged_size % n == 0 and n not in x.shape[1:]]
    return merged_size // min(batches) if batches else None


def begin(
    state: CaptureState,
    path: str,
    q_origin: frozenset[int],
    depth: int,
    layout: Layout,
    x: Tensor,
    keys: int,
    pair: tuple[Tensor | None, Tensor | None],
    seen: Seen | None = None,
) -> AttentionRecord:
    """Return the record of an attention that starts, at its site.

    ``x`` are its masked scores or weights, ``pair`` its queries and keys, if there are any.
    """
    kind = state.numbering.kind(path, *map(state.lineage.tokens, pair))
    canonical = layout.canonical(x)
    first, heads = canonical[0, 0, :, :keys], canonical.shape[1]
    queries = first.shape[0]
    source = Source.of(state.lineage, pair, (len(canonical), heads, queries, keys))
    rows = state.numbering.first_row((path, depth), source)
    first_row = rows[0]
    offset, first_key, memory = state.offset, 0, 0
    if kind == "self" and not first_row:
        front = state.lineage.grown(*pair)
        offset, first_key = state.numbering.rows((path, depth), (queries, keys), front)
        state.offset, memory = offset, front.memory if front else 0
    offset += first_row
    if path not in state.numbering.stacks and seen is None:
        hidden = first <= MASK_SCORE
        seen = Seen.all(hidden)
    stack = state.numbering.stack(path, kind, seen, offset - first_key + memory)
    place = state.numbering.place(stack, kind, depth, path, heads, source, rows)
    record = AttentionRecord(path, kind, stack, place.layer, heads=heads)
    record.shape, record.origin = (queries, keys), q_origin
    record.first_head, record.offset, record.first_key = place.first_head, offset, first_key
    record.first_row = first_row
    record.start = Mark().serial
    state.asked = [*state.asked[-1:], (record, pair)]
    return record


def repeated(state: CaptureState, record: AttentionRecord, sign: Any) -> AttentionRecord:
    """Return the attention before this one, if queries, keys and weights are equal.

    Such an attention meets its values in parts, and computes its softmax for each of them. ``sign``
    is compared if no weights were kept and nothing was measured.
    """
    state.signs = {id(one): state.signs.get(id(one)) for one, _ in state.asked}
    state.signs[id(record)] = sign
    if len(state.asked) < 2 or state.asked[1][0] is not record:
        return record
    (before, others), (_, pair) = state.asked
    if (before.site, before.heads, before.shape) != (record.site, record.heads, record.shape):
        return record
    if before not in state.capture.attentions or not (same_place(pair[0], others[0])):
        return record
    keys = pair[1], others[1]
    if keys[0] is None or keys[1] is None or not torch.equal(keys[0], keys[1]):
        return record
    if record.weights is not None and before.weights is not None:
        same = torch.equal(record.weights, before.weights)
    elif record.statistics and before.statistics:
        both = record.statistics.keys() & before.statistics.keys()
        same = all(torch.equal(record.statistics[one], before.statistics[one]) for one in both)
    else:
        same = same_sign(sign, state.signs[id(before)])
    if not same:
        return record
    state.asked = [(before, pair)]
    return before


def same_sign(one: Any, other: Any) -> bool:
    """Return True if two signs stand for the same weights."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return False
    masks = one[0], other[0]
    return one[1:] == other[1:] and (masks == (None, None) or same_place(*masks))


def same_place(x: Tensor | None, other: Tensor | None) -> bool:
    """Return True if two tensors are the same numbers in memory."""
    if x is None or other is None or (x.shape, x.stride()) != (other.shape, other.stride()):
        return False
    return x is other or (not x.is_meta and x.data_ptr() == other.data_ptr())


def plan_of(state: CaptureState, record: AttentionRecord) -> Plan | None:
    """Return the edits of this attention, and mark them as used."""
    plan = Plan.at(state.intervention, record.site, record.heads, record.first_head)
    state.used.update(matching(state.intervention, record.site, record.heads, record.first_head))
    if plan is not None:
        refuse_checkpointing(record.path)
        plan.first_key = record.first_key
    return plan


def say_unsure(state: CaptureState, plan: Plan | None, path: str) -> None:
    """Report keys for which fully masked rows leave open if they are padding."""
    if plan is not None and plan.unsure:
        state.say_unrecognised(
            f"rows of the attention in {path or 'this module'} hide all keys, so that padding and "
            "causal mask cannot be told apart at their own tokens; these stay hidden"
        )


def positions_of(record: AttentionRecord, device: torch.device) -> Tensor:
    """Return the absolute positions of the queries."""
    return torch.arange(record.shape[0], device=device) + record.offset


def keep(
    state: CaptureState,
    record: AttentionRecord,
    layout: Layout,
    scores: Tensor | None,
    role: Scores,
    plan: Plan | None = None,
) -> None:
    """Keep scores, q, k, their scale and a relative bias if requested."""
    if scores is not None and (state.request.scores(record.site) or state.request.check):
        record.scores = layout.canonical(scores).detach().clone()
    if state.request.qkv(record.site):
        record.q = own_copy(vectors(state, role.q, role.q_labels, record.heads, layout))
        record.k = own_copy(vectors(state, role.k, role.k_labels, record.heads, layout))
        record.scale, record.cap = scale_of(role)
    if state.request.tiles(record.site):
        q = vectors(state, role.q, role.q_labels, record.heads, layout)
        k = vectors(state, role.k, role.k_labels, record.heads, layout)
        whole = None if scores is None else layout.canonical(scores).detach()
        record.draft = Draft(whole, q, k, role, layout, plan)
    if state.shows_bias(record) and role.bias is not None:
        bias = layout.canonical(role.bias.expand(tuple(layout.shape)))[0]
        state.capture.positions[f"bias.{record.site.map}.{record.layer}"] = bias.detach()


def own_copy(x: Tensor | None) -> Tensor | None:
    """Return a copy of a kept tensor, since the module may overwrite its own."""
    return None if x is None else x.clone()


def vectors(
    state: CaptureState,
    x: Tensor | None,
    labels: tuple[str, ...] | None,
    heads: int,
    scores: Layout | None = None,
) -> Tensor | None:
    """Return q, k or v as ``[batch, head, token, width]``; None if its dimensions are unknown.

    Copies of a learned query may be items or heads; the layout of the ``scores`` decides.
    """
    if x is None or labels is None or len(labels) != x.dim():
        return None
    axes = state.lineage.axes(x)
    layout = Layout(labels, tuple(x.shape), heads, axes)
    if scores is not None and scores.axes is not None and axes is not None:
        same = scores.labels[:-2] == labels[:-2] and scores.shape[:-2] == layout.shape[:-2]
        if same and scores.sizes[:2] != layout.sizes[:2]:
            layout = replace(layout, axes=(*scores.axes[:-2], *axes[-2:]))
    return layout.canonical(x.detach())
