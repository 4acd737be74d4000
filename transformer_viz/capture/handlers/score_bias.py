"""What is added to scores: masks, relative biases, and what a model makes of positions itself.

A mask and a bias often reach the scores as one tensor. They are told apart where somebody asks for
one of them: edits of scores need the mask, edits of positions the bias.
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
    """Whether anybody asks in this run what of a sum is mask and what is bias."""
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
    """Something is added to scores (``sign`` -1: taken from them): a mask, a bias, or both."""
    args, kwargs = (scores, other) if args is None else args, kwargs or {}
    if state.lineage.origin(other):  # not constant: the input itself has a part in it
        out = state.call(func, *mingled(state, args, kwargs, other))
        return unscaled(state, scores, out) if mixed(state, other, scores) else out
    if not parts_matter(state):
        return state.call(func, args, kwargs)
    role = state.lineage.role(scores)
    assert isinstance(role, Scores)
    hidden, bias = parts(state, other if sign > 0 else -other)
    changed = None if bias is None else relative(state, bias, scores)
    unmasked = before_masks(state, role, func, scores)
    # Only a changed bias has the sum made anew: else it is the model's own, to the last bit.
    out = func(*args, **kwargs) if changed is bias else whole(scores, changed, hidden)
    out = scores.copy_(out) if in_place(func) and out is not scores else out
    role = replace(role, bias=_sum(role.bias, changed))
    if state.shapes_scores:
        unmasked = unmasked if changed is None else unmasked + changed
        role = replace(role, base=unmasked, hidden=covered(role.hidden, hidden, out))
    return state.lineage.propagate(out, [scores], role)


def before_masks(state: CaptureState, role: Scores, func: Any, scores: Tensor) -> Tensor:
    """Scores without the model's masks so far; a copy where the call is about to overwrite them."""
    if role.base is not None:
        return role.base
    return scores.clone() if in_place(func) and state.shapes_scores else scores


def covered(before: Tensor | None, now: Tensor | None, scores: Tensor) -> Tensor:
    """All that is hidden after one more mask, bool in the shape of the scores."""
    if now is None:
        now = torch.zeros_like(scores, dtype=torch.bool)
    now = now.expand(scores.shape)
    return now if before is None else before | now


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


def mixed(state: CaptureState, other: Tensor, scores: Tensor) -> bool:
    """Whether what is added is made of the scores themselves, as where heads are mixed."""
    made, before = state.lineage.mark(other), state.lineage.mark(scores)
    if made is None or before is None or made.role is not None or other.shape != scores.shape:
        return False
    return 0 < before.scored == made.scored


def unscaled(state: CaptureState, scores: Tensor, out: Any) -> Any:
    """Scores to which no one number leads from queries times keys."""
    role = state.lineage.role(out)
    if not isinstance(role, Scores):
        return out
    return state.lineage.propagate(out, [scores], replace(role, factor=None))


def parts(state: CaptureState, other: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Mask and bias of a constant that is added to scores."""
    role = state.lineage.role(other)
    if isinstance(role, Biased):
        return role.hidden, role.base
    return split_mask(other)


def filled(state: CaptureState, out: Tensor, constant: Tensor, mask: Tensor) -> Tensor:
    """A bias that a mask is written into before it meets the scores: the two are kept apart."""
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
    """The mask (bool, true = hidden) and the bias of a tensor added to scores; None if absent."""
    if constant.dtype == torch.bool or not constant.is_floating_point():
        return None, constant
    hidden = constant <= MASK_SCORE
    bias = constant.masked_fill(hidden, 0.0)
    return (hidden if hidden.any() else None), (bias if bias.any() else None)
