"""Masks after the exponential of an explicit softmax, where a hidden key is 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..roles import Scores
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, in_place, tensors


def on_triangle(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``tril`` of exponentials, which is a causal mask."""
    x = tensors(args, kwargs)[0]
    return zeroed(state, func, args, kwargs, x, lambda: func(torch.ones_like(x), *args[1:]) == 0)


def multiplied_mask(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Multiply exponentials by zeros and ones: a mask, as minus infinity is on their scores."""
    for x, mask in (pair := tensors(args, kwargs)[:2], pair[::-1]):
        if exponentials(state, x) and bool(((mask == 0) | (mask == 1)).all()):
            return zeroed(state, func, args, kwargs, x, partial(torch.eq, mask, 0))
    return state.call(func, args, kwargs)


def exponentials(state: CaptureState, x: Any) -> bool:
    """Return True if a tensor is the exponential of scores whose masks an edit may need."""
    role = state.lineage.role(x) if state.shapes_scores else None
    return isinstance(role, Scores) and role.exponential


def zeroed(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor, mask: Callable[[], Any]
) -> Any:
    """Record the values a mask sets to 0 after the exponential, and the numbers without it."""
    if not exponentials(state, x):
        return state.call(func, args, kwargs)
    role, hidden = state.lineage.role(x), mask()
    base = role.base if role.base is not None else x.clone() if in_place(func) else x
    out = func(*args, **kwargs)
    hidden = merged(role.hidden, hidden.expand(out.shape))
    return state.lineage.propagate(
        out, [x], replace(role, base=base.expand(out.shape), hidden=hidden, factor=None)
    )


def shut(value: Any) -> bool:
    """Return True if a fill value is the 0 of a mask after the exponential."""
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_meta and bool(value == 0)
    return isinstance(value, int | float) and value == 0


def merged(hidden: Tensor | None, more: Tensor) -> Tensor:
    return more if hidden is None else hidden | more
