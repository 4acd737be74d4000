"""Masks of scores before the softmax, recorded if an edit may need them (rule 8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core.numerics import MASK_SCORE
from ..roles import Ids, Scores
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, in_place, tensors
from .exponential_masks import exponentials, merged, shut, zeroed
from .rotary import assigned
from .score_bias import filled


def on_fill(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``masked_fill`` of scores with a very low value as a mask."""
    x, mask, value = (*args, *(kwargs[n] for n in ("mask", "value") if n in kwargs))[:3]
    return masked(state, func, args, kwargs, x, mask, value)


def on_where(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``where(mask, scores, low)``, in both orders."""
    given = (*args, *(kwargs[n] for n in ("condition", "input", "self", "other") if n in kwargs))
    if len(given) < 3:
        return state.call(func, args, kwargs)
    condition, x, other = (given[1], given[0], given[2]) if func is Tensor.where else given[:3]
    if low(other) or (exponentials(state, x) and shut(other)):
        return masked(state, func, args, kwargs, x, ~condition, other)
    return masked(state, func, args, kwargs, other, condition, x)


def on_assign(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``scores[mask] = low``, a mask in place."""
    x, index, value = args
    role = state.lineage.role(x)
    if not isinstance(role, Scores) or not state.shapes_scores or not low(value):
        func(*args, **kwargs)
        assigned(state, func, args, kwargs)
        given = state.lineage.role(value)
        if isinstance(given, Ids) or (isinstance(value, Tensor) and state.lineage.origin(value)):
            state.lineage.propagate(x, [x, value], given if isinstance(given, Ids) else role)
        return None
    hidden = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
    hidden[index] = True
    base = x.clone() if role.base is None else role.base
    func(*args, **kwargs)
    state.lineage.propagate(x, [x], replace(role, base=base, hidden=merged(role.hidden, hidden)))
    return None


def on_copy(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Mark a tensor overwritten by a whole other one as that one."""
    out = func(*args, **kwargs)
    source = tensors(args, kwargs)[-1]
    if source.shape == out.shape:
        return state.lineage.follow(out, Tensor.clone, (source,), {})
    return state.lineage.follow(out, func, args, kwargs)


def masked(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Any, mask: Any, value: Any
) -> Any:
    """Record the hidden keys of a mask, and the scores without it, if an edit may need them."""
    if exponentials(state, x) and shut(value):
        return zeroed(state, func, args, kwargs, x, lambda: mask)
    if not (isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 2 and low(value)):
        return state.call(func, args, kwargs)
    if not state.lineage.origin(x):
        constant = x.clone() if in_place(func) else x
        return filled(state, state.call(func, args, kwargs), constant, mask)
    if not state.shapes_scores:
        return state.call(func, args, kwargs)
    role = state.lineage.role(x)
    role = role if isinstance(role, Scores) else Scores(depth=state.lineage.depth(x))
    base = role.base if role.base is not None else x.clone() if in_place(func) else x
    out = func(*args, **kwargs)
    hidden = merged(role.hidden, mask.expand(out.shape))
    role = replace(role, base=base.expand(out.shape), hidden=hidden)
    return state.lineage.propagate(out, [x], role)


def low(value: Any) -> bool:
    """Return True if a fill value is a mask's."""
    if isinstance(value, Tensor):
        return value.numel() > 0 and value.is_floating_point() and bool((value <= MASK_SCORE).all())
    return isinstance(value, int | float) and value <= MASK_SCORE
