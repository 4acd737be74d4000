"""Rotary positions: angles found at their cosine and sine, or read from a table.

Each wave carries its value with edited angles (`Mark.edited_rotary`), which replaces the wave where
it multiplies an activation: queries and keys.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..roles import Weights
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, swap, tensors
from .exponential_masks import exponentials, multiplied_mask
from .positions import moved, stack_here, uses_positions
from .sinusoids import drawn
from .two_steps import spread


def on_waves(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle cosine and sine of constants, possible rotary angles; compute the edited waves too."""
    out = state.call(func, args, kwargs)
    given = tensors(args, kwargs)
    if not given or state.lineage.origin(given[-1]) or given[-1].dim() < 2:
        return out
    if not uses_positions(state):
        return out
    angle, stack = given[-1], stack_here(state)
    edited = moved(state, angle, (_angle_axis(state, angle),), stack)
    mark = state.lineage.mark(out)
    if mark is not None:
        by = {id(angle): edited}
        mark.edited_rotary = func(*swap(args, by), **swap(kwargs, by))
        state.lineage.edited_angles[stack] = edited
    return out


def _angle_axis(state: CaptureState, angle: Tensor) -> int:
    """Return the token axis of angles: the last but one, or the first with a sentence's length."""
    lengths = state.lineage.token_lengths(state.lineage.lengths)
    axes = [axis for axis in range(angle.dim() - 2, -1, -1) if angle.shape[axis] in lengths]
    return axes[0] if axes else angle.dim() - 2


def on_multiply(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Apply an edited rotation where its waves multiply an activation."""
    lineage = state.lineage
    if any(isinstance(lineage.role(t), Weights) for t in tensors(args, kwargs)):
        return spread(state, func, args, kwargs)
    if len(parents := tensors(args, kwargs)) == 2 and any(exponentials(state, x) for x in parents):
        return multiplied_mask(state, func, args, kwargs)
    if not lineage.edited_angles and not lineage.waves:
        return state.call(func, args, kwargs)
    if not any(lineage.origin(t) for t in parents):
        return state.call(func, args, kwargs)
    edited = {id(t): wave for t in parents if (wave := edited_wave(state, t)) is not None}
    if not edited:
        return state.call(func, args, kwargs)
    if state.request.positions:
        for stack, angle in lineage.edited_angles.items():
            table = angle.squeeze() if angle.dim() > 2 else angle
            state.capture.positions.setdefault(f"rotary.{stack}", table.detach())
    return lineage.propagate(func(*swap(args, edited), **swap(kwargs, edited)), parents)


def assigned(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> None:
    """Write an edited wave too if a wave is written into another one in place.

    Qwen 3 does this with the rows and columns of a picture.
    """
    if not state.lineage.edited_angles:
        return
    marks = {id(t): state.lineage.mark(t) for t in tensors(args, kwargs)}
    waves = {at: m.edited_rotary for at, m in marks.items() if m and m.edited_rotary is not None}
    if id(args[0]) in waves and not state.lineage.origin(args[0]):
        func(*swap(args, waves), **swap(kwargs, waves))


def edited_wave(state: CaptureState, x: Tensor) -> Tensor | None:
    """Return a rotation's wave with edited angles; None for any other tensor."""
    mark, wave = state.lineage.mark(x), state.lineage.wave(x)
    if wave is None or state.lineage.origin(x):
        return None if mark is None else mark.edited_rotary
    stack = stack_here(state)
    lengths = state.lineage.token_lengths(state.lineage.lengths) - {1}
    axes = [axis for axis in range(x.dim() - 1) if x.shape[axis] in lengths] or [0]
    angle, kind = wave.real, wave.imag.round().long()
    edited = moved(state, angle, axes[-1:], stack)
    rows = edited.movedim(axes[-1], 0)
    state.lineage.edited_angles[stack] = rows.reshape(rows.shape[0], -1, rows.shape[-1])[:, 0]
    return x if edited is angle else drawn(kind, edited).to(x.dtype)
