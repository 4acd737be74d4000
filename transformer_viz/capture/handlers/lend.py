"""Activation patching inside a pass, and collection of values for patches of other passes.

A head's output is replaced at the product of its weights with the values, its weights just before
it, the residual stream after a residual sum. An edit counts as used only if that product or sum is
really computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...core.sites import Site
from ..axes.layout import Layout
from ..donations import OUTPUTS, PATTERNS, STREAM, Donation
from ..records import AttentionRecord
from ..state import CaptureState


def used(state: CaptureState, found: list[Donation]) -> None:
    """Mark the edits of these patches as used."""
    state.used.update(one.edit for one in found if one.edit is not None)


def whole(record: AttentionRecord) -> None:
    """Refuse sites where a module computes its heads or rows in parts.

    Raises:
        ValueError: Names the module.
    """
    if record.offset or record.first_key or record.first_row or record.first_head:
        raise ValueError(
            f"The attention in {record.path or 'this module'} runs in parts (heads or rows one "
            "after another, or with keys of earlier passes), so nothing of another run can be put "
            "in its place there."
        )


def patterns(state: CaptureState, record: AttentionRecord, weights: Tensor, first: int = 0) -> Any:
    """Return weights ``[batch, head, row, key]`` with patches; None without patches."""
    found = state.giving.of(PATTERNS, record.site)
    if not found:
        return None
    whole(record)
    if any(one.values.shape[-1] != weights.shape[-1] for one in found):
        raise ValueError(
            f"The weights that are lent to {record.site} speak of another number of keys."
        )
    used(state, found)
    return state.giving.put(weights, found, first)


def outputs(state: CaptureState, record: AttentionRecord, z: Tensor) -> Tensor | None:
    """Return head outputs ``[batch, head, query, width]`` with patches; None without patches.

    The outputs are collected if requested.
    """
    if state.request.lend:
        state.capture.offered.outputs.setdefault(record.site, []).append(z.detach().clone())
    found = state.giving.of(OUTPUTS, record.site)
    if not found:
        return None
    whole(record)
    used(state, found)
    return state.giving.put(z, found)


def product(
    state: CaptureState,
    record: AttentionRecord,
    layout: Layout,
    v: Tensor,
    call: Callable[[Tensor, Tensor], Any],
    out: Tensor,
) -> Tensor:
    """Return the product of weights and values, of any layout, with patched head outputs."""
    if not state.request.lend and not state.giving.of(OUTPUTS, record.site):
        return out
    order = places(layout, v, call, out)
    if order is None:
        state.capture.offered.cut.add(record.site)
        if state.giving.of(OUTPUTS, record.site):
            raise ValueError(
                f"What the heads of {record.site} give is mixed at once with something else in "
                f"{record.path or 'this module'}, so nothing can be put in its place."
            )
        return out
    batch, heads, queries, _ = layout.sizes
    flat = out.reshape(-1)
    z = flat[order].reshape(batch, heads, queries, -1)
    changed = outputs(state, record, z)
    if changed is None:
        return out
    made = torch.empty_like(flat)
    made[order] = changed.reshape(-1)
    return kept(out, made.reshape(out.shape))


def places(
    layout: Layout, v: Tensor, call: Callable[[Tensor, Tensor], Any], out: Any
) -> Tensor | None:
    """Return the order of ``[batch, head, query, width]`` in a product's numbers, or None.

    Each row of weights gets a unique number at one key, and values are all 1. Every number of the
    product then identifies its row, in any layout.
    """
    batch, heads, queries, keys = layout.sizes
    rows = batch * heads * queries
    numbers = torch.zeros(rows, keys, dtype=torch.float64, device=v.device)
    numbers[:, 0] = torch.arange(rows, dtype=torch.float64, device=v.device)
    ones = torch.ones(v.shape, dtype=torch.float64, device=v.device)
    seen = call(layout.original(numbers.reshape(batch, heads, queries, keys)), ones)
    if not isinstance(seen, Tensor) or seen.shape != out.shape or out.numel() % rows:
        return None
    whose, order = seen.reshape(-1).sort(stable=True)
    expected = torch.arange(rows, dtype=torch.float64, device=v.device)
    return (
        order
        if torch.equal(whose.reshape(rows, -1), expected[:, None].expand(rows, out.numel() // rows))
        else None
    )


def stream(state: CaptureState, site: Site, out: Tensor) -> Tensor:
    """Return the residual stream after a residual sum, with patches."""
    nth = state.giving.sums[site]
    state.giving.sums[site] += 1
    if state.request.lend:
        state.capture.offered.sums.setdefault(site, []).append(out.detach().clone())
    found = state.giving.of(STREAM, site, nth)
    if not found:
        return out
    used(state, found)
    x = out.transpose(0, 1) if found[0].time_first else out
    made = state.giving.put(x[:, None], found)[:, 0]
    return kept(out, made.transpose(0, 1) if found[0].time_first else made)


def kept(out: Tensor, made: Tensor) -> Tensor:
    """Return the new numbers in the module's own tensor; with gradients a new tensor."""
    return made if torch.is_grad_enabled() else out.copy_(made)
