"""Positions found by behaviour: tables added to embeddings, and their edits.

`scale_positions` and `shuffle_positions` act on the values of a pass; tables in the model stay
unchanged. Biases on scores are in `score_bias.py`, rotations in `rotary.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.interventions import Edit, ScalePositions, ShufflePositions
from ..roles import Ids, Stream, Table
from ..site_numbering import named_stack
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, swap, tensors

FEW = 4  # a table of at most this many rows holds token types, not positions


# ---- edits -------------------------------------------------------------------------------------


def permutation(length: int, special: Sequence[bool], seed: int) -> np.ndarray:
    """Return position numbers ``[token]`` after a shuffle: special tokens are kept."""
    fixed = np.zeros(length, dtype=bool)
    fixed[: min(length, len(special))] = special[:length]
    places = np.arange(length)
    ordinary = places[~fixed]
    places[~fixed] = np.random.default_rng(seed).permutation(ordinary)
    return places


def stack_here(state: CaptureState) -> str:
    """Return the stack whose positions are processed."""
    return named_stack(state.names.path()) or state.request.stack


def change(state: CaptureState, kind: type, stack: str) -> Any:
    """Return the last position edit of a kind for a stack; overridden ones count as used too."""
    found = [
        edit
        for edit in state.intervention
        if isinstance(edit, kind) and edit.stack in (None, stack) and not narrow(edit)
    ]
    state.used.update(found)
    return found[-1] if found else None


def narrow(edit: Edit) -> bool:
    """Return True if an edit of positions names less than a stack, the unit of positions."""
    named = (edit.layer, edit.head, edit.path) != (None, None, None)
    return named or edit.block not in (None, "self")


def uses_positions(state: CaptureState) -> bool:
    """Return True if this run edits or collects positions."""
    edits = (ScalePositions, ShufflePositions)
    return state.request.positions or any(isinstance(edit, edits) for edit in state.intervention)


def moved(state: CaptureState, table: Tensor, axes: Sequence[int], stack: str) -> Tensor:
    """Return positions after the edits: shuffled along their token axes, then scaled."""
    shuffle = change(state, ShufflePositions, stack)
    if shuffle is not None:
        for axis in axes:
            length = table.shape[axis]
            order = permutation(length, state.request.special.get(stack, ()), shuffle.seed)
            table = table.index_select(axis, torch.as_tensor(order, device=table.device))
    scale = change(state, ScalePositions, stack)
    return table if scale is None else table * scale.value


# ---- look-ups ----------------------------------------------------------------------------------


def on_lookup(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Start a token stream at a look-up by the ids of the input; any other is a constant."""
    out = func(*args, **kwargs)
    lineage = state.lineage
    ids = next((t for t in tensors(args, kwargs) if not t.is_floating_point()), None)
    table = next((t for t in tensors(args, kwargs) if t.is_floating_point()), None)
    if ids is None or table is None or lineage.origin(table):
        return lineage.follow(out, func, args, kwargs)
    if out.dim() < 2 or not out.is_floating_point():
        return lineage.follow(out, func, args, kwargs)
    if table.dim() > 2 and lineage.origin(ids):
        return lineage.propagate(out, [table])  # weights of the experts that a router chose
    constant = lineage.role(ids) is None and not lineage.origin(ids)
    constant = constant and (lineage.mark(ids) is not None or id(ids) in lineage.owned)
    if constant or counting(state, ids):
        lineage.propagate(out, [table], Table(table.shape[0]))
        if lineage.waves:
            lineage.propagate_waves(out, [table], func, args, kwargs)
    else:
        lineage.propagate(out, [table])
        lineage.starts(out, (*ids.shape, *out.shape[:-1]))
    return out


def on_index(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``table[ids]`` as a look-up; any other index moves values."""
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if any(isinstance(i, Tensor) and i.dim() and i.dtype != torch.bool for i in index):
        return on_lookup(state, func, args, kwargs)
    return state.call(func, args, kwargs)


def encoded(state: CaptureState, given: Sequence[Tensor]) -> None:
    """Start a token stream where numbers of the input meet weights: one-hot tokens, image bytes."""
    lineage = state.lineage
    x, *others = given
    mark = lineage.mark(x)
    if not isinstance(lineage.role(x), Ids) or mark is None or mark.origin:
        return
    if x.dim() > 1 and not any(lineage.origin(t) for t in others) and not counting(state, x):
        lineage.starts(x, x.shape[:-1] if x.dim() < 4 else x.shape)


def counting(state: CaptureState, ids: Tensor) -> bool:
    """Return True if integers count up by one along the tokens, as position numbers do."""
    role = state.lineage.role(ids)
    counted = isinstance(role, Ids) and role.counted
    if ids.dim() == 0 or ids.shape[-1] < 2:
        return counted
    if ids.is_floating_point():
        return False
    step = ids[..., 1:] - ids[..., :-1]
    counts = bool((step == 1).any()) and bool(((step == 1) | (step <= 0)).all())
    if counted:
        return counts
    known = any(set(ids.shape) == sizes for sizes in state.lineage.lengths.values())
    return bool((step == 1).all()) and known and int(ids.min()) <= 2


# ---- sums --------------------------------------------------------------------------------------


def add_table(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor, table: Tensor
) -> Any:
    """Record positions: a constant with unequal rows, added to embeddings before attention."""
    axis = token_axis(state, x, table)
    if axis is None:
        return state.call(func, args, kwargs)
    stack = stack_here(state)
    if uses_positions(state):
        edited = moved(state, table.expand(x.shape), (axis,), stack)
        args, kwargs = swap(args, {id(table): edited}), swap(kwargs, {id(table): edited})
        rows = edited.select(0 if axis else 1, 0)
        if state.request.positions:
            state.capture.positions.setdefault(f"table.{stack}", rows.detach())
    return state.lineage.propagate(func(*args, **kwargs), [x], Stream())


def token_axis(state: CaptureState, x: Tensor, table: Tensor) -> int | None:
    """Return the axis along which a constant numbers the tokens of ``x``, or None."""
    if x.dim() not in (2, 3) or table.dim() < 2 or x.shape[-1] != table.shape[-1]:
        return None
    if state.lineage.depth(x):
        return None  # an attention comes before it: no embeddings any more
    pairs = zip(table.shape[::-1], x.shape[::-1], strict=False)
    if table.dim() > x.dim() or any(have not in (1, size) for have, size in pairs):
        return None  # the sum is larger than its first operand: two masks of different shape
    whole = table.expand(x.shape) if table.shape != x.shape else table
    for axis in range(x.dim() - 2, -1, -1):
        first = whole.narrow(axis, 0, 1)
        if x.shape[axis] > 1 and bool((whole != first).any()):
            return axis
    role, base = state.lineage.role(table), table._base
    rows = role.rows if isinstance(role, Table) else 0
    if base is not None and base.dim() > 1 and id(base) in state.lineage.owned:
        rows = base.shape[-2]  # one row cut from a table that the module keeps
    alone = x.dim() == 3 and x.shape[0] == x.shape[1] == 1
    return 1 if alone and rows > FEW else None
