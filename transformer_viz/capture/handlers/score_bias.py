"""Terms added to scores: masks, relative biases, and position terms computed by the model.

A mask and a bias often reach the scores as one tensor. They are separated only if needed: edits of
scores need the mask, edits of positions the bias.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core.interventions import ScalePositions, ShufflePositions
from ...core.numerics import MASK_SCORE
from ..roles import Biased, Located, Scores
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, in_place, swap
from .positions import change, moved, stack_here, uses_positions


def parts_matter(state: CaptureState) -> bool:
    """Return True if this run needs mask and bias of a sum separately."""
    return state.shapes_scores or uses_positions(state) or state.request.tiled


def biased(
    state: CaptureState,
    func: Any,
    scores: Tensor,
    other: Tensor,
    sign: int,
    args: Args | None = None,
    kwargs: Kwargs | None = None,
) -> Any:
    """Handle a term added to scores (``sign`` -1: subtracted): a mask, a bias, or both."""
    args, kwargs = (scores, other) if args is None else args, kwargs or {}
    if state.lineage.origin(other):  # not constant: it depends on the input
        out = state.call(func, *mingled(state, args, kwargs, other))
        return unscaled(state, scores, out) if mixed(state, other, scores) else out
    if not parts_matter(state):
        return state.call(func, args, kwargs)
    role = state.lineage.role(scores)
    assert isinstance(role, Scores)
    hidden, bias = parts(state, other if sign > 0 else -other)
    changed = None if bias is None else relative(state, bias, scores)
    unmasked = before_masks(state, role, func, scores)
    # Only a changed bias recomputes the sum: else it is the model's own, to the last bit.
    out = func(*args, **kwargs) if changed is bias else whole(scores, changed, hidden)
    out = scores.copy_(out) if in_place(func) and out is not scores else out
    role = replace(role, bias=_sum(role.bias, changed))
    if state.shapes_scores:
        unmasked = unmasked if changed is None else unmasked + changed
        role = replace(role, base=unmasked, hidden=covered(role.hidden, hidden, out))
    return state.lineage.propagate(out, [scores], role)


def before_masks(state: CaptureState, role: Scores, func: Any, scores: Tensor) -> Tensor:
    """Return scores without the model's masks so far, copied if the call will overwrite them."""
    if role.base is not None:
        return role.base
    return scores.clone() if in_place(func) and state.shapes_scores else scores


def covered(before: Tensor | None, now: Tensor | None, scores: Tensor) -> Tensor:
    """Return all hidden cells after one more mask, bool in the shape of the scores."""
    if now is None:
        now = torch.zeros_like(scores, dtype=torch.bool)
    now = now.expand(scores.shape)
    return now if before is None else before | now


def mingled(state: CaptureState, args: Args, kwargs: Kwargs, other: Tensor) -> tuple[Any, Any]:
    """Return the operands of a sum of scores and a term of queries or keys with relative positions.

    Raises:
        ValueError: Positions are to be shuffled, which such a term does not support.
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


def mixed(state: CaptureState, other: Tensor, scores: Tensor) -> bool:
    """Return True if the added term is computed from the scores, as in a mix of heads."""
    made, before = state.lineage.mark(other), state.lineage.mark(scores)
    if made is None or before is None or made.role is not None or other.shape != scores.shape:
        return False
    return 0 < before.scored == made.scored


def unscaled(state: CaptureState, scores: Tensor, out: Any) -> Any:
    """Return scores that are no longer a single multiple of queries times keys."""
    role = state.lineage.role(out)
    if not isinstance(role, Scores):
        return out
    return state.lineage.propagate(out, [scores], replace(role, factor=None))


def parts(state: CaptureState, other: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return mask and bias of a constant that is added to scores."""
    role = state.lineage.role(other)
    if isinstance(role, Biased):
        return role.hidden, role.base
    return split_mask(other)


def filled(state: CaptureState, out: Tensor, constant: Tensor, mask: Tensor) -> Tensor:
    """Keep a bias and a mask apart if the mask is written into the bias before the scores."""
    if out.dim() < 3 or state.lineage.origin(out) or not parts_matter(state):
        return out
    role = state.lineage.role(constant)
    hidden = mask.expand(out.shape)
    if isinstance(role, Biased):
        constant, hidden = role.base, hidden | role.hidden
    elif not constant.any():
        return out
    return state.lineage.propagate(out, [out], Biased(constant.expand(out.shape), hidden))


def relative(state: CaptureState, bias: Tensor, scores: Tensor) -> Tensor:
    """Return a relative bias after the position edits; the same object without edits."""
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
    """Keep a mask and a bias apart if they are added before either meets the scores (T5)."""
    out = state.call(func, args, kwargs)
    if not parts_matter(state) or not isinstance(out, Tensor) or out.dim() < 3:
        return out
    if not out.is_floating_point() or state.lineage.origin(out):
        return out
    for bias, mask in ((a, b), (b, a)):
        hidden, rest = split_mask(mask)
        if hidden is not None and rest is None:
            role = Biased(bias.expand(out.shape), hidden.expand(out.shape))
            return state.lineage.propagate(out, [a, b], role)
    return out


def split_mask(constant: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return mask (bool, true = hidden) and bias of a tensor added to scores; None if absent."""
    if constant.dtype == torch.bool or not constant.is_floating_point():
        return None, constant
    hidden = constant <= MASK_SCORE
    bias = constant.masked_fill(hidden, 0.0)
    return (hidden if hidden.any() else None), (bias if bias.any() else None)
