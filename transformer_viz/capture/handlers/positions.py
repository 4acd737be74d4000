"""Positions found by behaviour: tables that are added, angles that rotate, biases on scores.

`scale_positions` and `shuffle_positions` act here, on values that pass by; tables in the model
stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.interventions import Edit, ScalePositions, ShufflePositions
from ...core.numerics import MASK_SCORE
from ..propagation import in_place, swap, tensors
from ..roles import Biased, Ids, Located, Scores, Stream, Table
from ..site_numbering import named_stack
from ..state import CaptureState
from ..torch_calls import Args, Kwargs
from .sinusoids import drawn

FEW = 4  # a table of at most so many rows holds token types, not positions


def permutation(length: int, special: Sequence[bool], seed: int) -> np.ndarray:
    """Position numbers ``[token]`` after a shuffle: ordinary tokens permuted, special ones kept."""
    fixed = np.zeros(length, dtype=bool)
    fixed[: min(length, len(special))] = special[:length]
    places = np.arange(length)
    ordinary = places[~fixed]
    places[~fixed] = np.random.default_rng(seed).permutation(ordinary)
    return places


def stack_here(state: CaptureState) -> str:
    """The stack whose positions pass by."""
    return named_stack(state.names.path()) or state.request.stack


def change(state: CaptureState, kind: type, stack: str) -> Any:
    """The last position edit of a kind for a stack; those that it overrides are used too."""
    found = [
        edit
        for edit in state.intervention
        if isinstance(edit, kind) and edit.stack in (None, stack) and not narrow(edit)
    ]
    state.used.update(found)
    return found[-1] if found else None


def narrow(edit: Edit) -> bool:
    """Whether an edit of positions names less than a stack, which positions do not know."""
    return (edit.layer, edit.head) != (None, None) or edit.block not in (None, "self")


def uses_positions(state: CaptureState) -> bool:
    """Whether this run edits or collects positions."""
    edits = (ScalePositions, ShufflePositions)
    return state.request.positions or any(isinstance(edit, edits) for edit in state.intervention)


def moved(state: CaptureState, table: Tensor, axes: Sequence[int], stack: str) -> Tensor:
    """Positions after the edits: shuffled along their token axes, then scaled."""
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
    """A look-up by the ids of the input starts a token stream; any other is a constant."""
    out = func(*args, **kwargs)
    ids = next((t for t in tensors(args, kwargs) if not t.is_floating_point()), None)
    table = next((t for t in tensors(args, kwargs) if t.is_floating_point()), None)
    if ids is None or table is None or state.lineage.origin(table):
        return state.lineage.follow(out, func, args, kwargs)
    constant = state.lineage.role(ids) is None and not state.lineage.origin(ids)
    constant = constant and (state.lineage.mark(ids) is not None or id(ids) in state.names.owned)
    if constant or counting(state, ids):
        state.lineage.propagate(out, [table], Table(table.shape[0]))
        if state.lineage.waves:
            state.lineage.propagate_waves(out, [table], func, args, kwargs)
    else:
        state.lineage.propagate(out, [table])
        out_mark = state.lineage.mark(out)
        assert out_mark is not None
        out_mark.origin = state.lineage.new_stream(ids.shape)
    return out


def counting(state: CaptureState, ids: Tensor) -> bool:
    """Whether integers count up by one along the tokens, as position numbers do."""
    role = state.lineage.role(ids)
    counted = isinstance(role, Ids) and role.counted
    if ids.dim() == 0 or ids.shape[-1] < 2:
        return counted
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
    """A constant whose rows differ, added to embeddings before any attention, holds positions."""
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
    """The axis along which a constant numbers the tokens of ``x``; None if it is no such table."""
    if (
        x.dim() not in (2, 3)
        or table.dim() < 2
        or state.lineage.depth(x)
        or x.shape[-1] != table.shape[-1]
    ):
        return None
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
    if base is not None and base.dim() > 1 and id(base) in state.names.owned:
        rows = base.shape[-2]  # one row cut from a table that the module keeps
    alone = x.dim() == 3 and x.shape[0] == x.shape[1] == 1
    return 1 if alone and rows > FEW else None


def biased(
    state: CaptureState,
    func: Any,
    scores: Tensor,
    other: Tensor,
    sign: int,
    args: Any = None,
    kwargs: Any = None,
) -> Any:
    """Something constant is added to scores: a mask, a relative bias, or both."""
    args, kwargs = (scores, other) if args is None else args, kwargs or {}
    role = state.lineage.role(scores)
    assert isinstance(role, Scores)
    if state.lineage.origin(other):
        return state.call(func, *mingled(state, args, kwargs, other))
    if not (state.shapes_scores or uses_positions(state)):
        return state.call(func, args, kwargs)
    hidden, bias = parts(state, other if sign > 0 else -other)
    base = role.base
    if base is None:
        base = scores.clone() if in_place(func) and state.shapes_scores else scores
    changed = None if bias is None else relative(state, bias, scores)
    out = func(*args, **kwargs) if changed is bias else whole(scores, changed, hidden)
    out = scores.copy_(out) if in_place(func) and out is not scores else out
    role = replace(role, bias=_sum(role.bias, changed))
    if state.shapes_scores:
        hidden = (
            torch.zeros_like(out, dtype=torch.bool) if hidden is None else hidden.expand(out.shape)
        )
        hidden = hidden if role.hidden is None else role.hidden | hidden
        role = replace(role, base=base if changed is None else base + changed, hidden=hidden)
    return state.lineage.propagate(out, [scores], role)


def mingled(state: CaptureState, args: Args, kwargs: Kwargs, other: Tensor) -> tuple[Any, Any]:
    """The operands of a sum of scores and what queries or keys make of relative positions.

    Raises:
        ValueError: positions are to be shuffled, which such a part cannot show.
    """
    if not isinstance(state.lineage.role(other), Located) or not uses_positions(state):
        return args, kwargs
    stack, path = stack_here(state), state.names.path()
    if change(state, ShufflePositions, stack) is not None:
        raise ValueError(
            f"The attention in {path or 'this module'} multiplies queries with relative positions, "
            "so positions cannot be shuffled there. They can be scaled."
        )
    scale = change(state, ScalePositions, stack)
    by = {} if scale is None else {id(other): other * scale.value}
    return swap(args, by), swap(kwargs, by)


def parts(state: CaptureState, other: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Mask and bias of a constant that is added to scores."""
    role = state.lineage.role(other)
    if isinstance(role, Biased):
        return role.hidden, role.base
    return split_mask(other)


def filled(state: CaptureState, out: Tensor, constant: Tensor, mask: Tensor) -> Tensor:
    """A bias that a mask is written into before it meets the scores: the two are kept apart."""
    if (
        out.dim() < 3
        or state.lineage.origin(out)
        or not (state.shapes_scores or uses_positions(state))
    ):
        return out
    role = state.lineage.role(constant)
    hidden = mask.expand(out.shape)
    if isinstance(role, Biased):
        constant, hidden = role.base, hidden | role.hidden
    elif not constant.any():
        return out
    return state.lineage.propagate(out, [out], Biased(constant.expand(out.shape), hidden))


def relative(state: CaptureState, bias: Tensor, scores: Tensor) -> Tensor:
    """A relative bias after the position edits; the same object where there are none."""
    if not any(isinstance(e, ScalePositions | ShufflePositions) for e in state.intervention):
        return bias
    axes = [a for a in (-2, -1) if bias.dim() >= -a and bias.shape[a] == scores.shape[a]]
    square = len(axes) == 2 and bias.shape[-1] == bias.shape[-2]
    return moved(state, bias, axes if square else axes[-1:], stack_here(state))


def whole(scores: Tensor, bias: Tensor | None, hidden: Tensor | None) -> Tensor:
    out = scores if bias is None else scores + bias
    return out if hidden is None else out.masked_fill(hidden, torch.finfo(out.dtype).min)


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def add_constants(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, a: Tensor, b: Tensor
) -> Any:
    """A mask added to a bias before either meets the scores (T5): the two are kept apart."""
    out = state.call(func, args, kwargs)
    if (
        not (state.shapes_scores or uses_positions(state))
        or not isinstance(out, Tensor)
        or out.dim() < 3
    ):
        return out
    if not out.is_floating_point() or state.lineage.origin(out):
        return out
    for bias, mask in ((a, b), (b, a)):
        hidden, rest = split_mask(mask)
        if hidden is not None and rest is None:
            role = Biased(bias.expand(out.shape), hidden.expand(out.shape))
            return state.lineage.propagate(out, [a, b], role)
    return out


# ---- rotations ---------------------------------------------------------------------------------


def on_waves(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Cosine and sine of constants may be rotary angles; beside them goes what an edit makes."""
    out = state.call(func, args, kwargs)
    given = tensors(args, kwargs)
    if (
        not given
        or state.lineage.origin(given[-1])
        or not uses_positions(state)
        or given[-1].dim() < 2
    ):
        return out
    angle, stack = given[-1], stack_here(state)
    edited = moved(state, angle, (_angle_axis(state, angle),), stack)
    mark = state.lineage.mark(out)
    if mark is not None:
        mark.edited_rotary = func(
            *swap(args, {id(angle): edited}), **swap(kwargs, {id(angle): edited})
        )
        state.lineage.edited_angles[stack] = edited
    return out


def _angle_axis(state: CaptureState, angle: Tensor) -> int:
    """The token axis of angles: the last but one, or the first whose size is a sentence's."""
    lengths = set().union(*state.lineage.lengths.values()) if state.lineage.lengths else set()
    axes = [axis for axis in range(angle.dim() - 2, -1, -1) if angle.shape[axis] in lengths]
    return axes[0] if axes else angle.dim() - 2


def on_multiply(state: CaptureState, func: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """A rotation reaches the queries and keys where its waves multiply an activation."""
    if not state.lineage.edited_angles and not state.lineage.waves:
        return state.call(func, args, kwargs)
    parents = tensors(args, kwargs)
    if not any(state.lineage.origin(t) for t in parents):
        return state.call(func, args, kwargs)
    shadows = {id(t): s for t in parents if (s := shadow(state, t)) is not None}
    if not shadows:
        return state.call(func, args, kwargs)
    if state.request.positions and state.lineage.edited_angles:
        for stack, angle in state.lineage.edited_angles.items():
            table = angle.squeeze() if angle.dim() > 2 else angle
            state.capture.positions.setdefault(f"rotary.{stack}", table.detach())
    return state.lineage.propagate(func(*swap(args, shadows), **swap(kwargs, shadows)), parents)


def shadow(state: CaptureState, x: Tensor) -> Tensor | None:
    """What a rotation's wave would be with edited angles; None for any other tensor."""
    mark, wave = state.lineage.mark(x), state.lineage.wave(x)
    if wave is None or state.lineage.origin(x):
        return None if mark is None else mark.edited_rotary
    stack = stack_here(state)
    lengths = set().union(*state.lineage.lengths.values()) - {1}
    axes = [axis for axis in range(x.dim() - 1) if x.shape[axis] in lengths] or [0]
    angle, kind = wave.real, wave.imag.round().long()
    edited = moved(state, angle, axes[-1:], stack)
    rows = edited.movedim(axes[-1], 0)
    state.lineage.edited_angles[stack] = rows.reshape(rows.shape[0], -1, rows.shape[-1])[:, 0]
    return x if edited is angle else drawn(kind, edited).to(x.dtype)


def split_mask(constant: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The mask (bool, true = hidden) and the bias of a tensor added to scores; None if absent."""
    if constant.dtype == torch.bool or not constant.is_floating_point():
        return None, constant
    hidden = constant <= MASK_SCORE
    bias = constant.masked_fill(hidden, 0.0)
    return (hidden if hidden.any() else None), (bias if bias.any() else None)
