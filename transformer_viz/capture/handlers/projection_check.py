"""From weights x v to the residual sum: the output projection, found and recomputed in float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import torch_calls
from ..roles import Context, SubLayer
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, swap, tensors
from .positions import encoded


def on_project(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``linear`` and ``addmm``: the first activation among the operands is projected."""
    encoded(state, tensors(args, kwargs)[func not in torch_calls.LINEAR :])
    for x in tensors(args, kwargs):
        role = state.lineage.role(x)
        if isinstance(role, Context):
            return project(state, func, args, kwargs, x, role)
        if isinstance(role, SubLayer):
            out, changed = func(*args, **kwargs), SubLayer(role.record, role.start, False)
            return state.lineage.propagate(out, tensors(args, kwargs), changed)
    return state.call(func, args, kwargs)


def on_convolve(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Start a token stream at a convolution of numbers of the input."""
    encoded(state, tensors(args, kwargs))
    return state.call(func, args, kwargs)


def project(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor, role: Context
) -> Any:
    """Handle the output projection of an attention; its result enters the residual sum."""
    out = func(*args, **kwargs)
    record = role.record
    if record.proof is not None:
        plain = all(type(t) in torch_calls.PLAIN for t in tensors(args, kwargs))
        again, record.proof = chained(role, record.proof) if plain else None, None
        if isinstance(again, Tensor) and again.shape == x.shape:  # else split: not checked
            exact = {id(t): t.detach().double() for t in tensors(args, kwargs)} | {id(x): again}
            expected = func(*swap(args, exact), **swap(kwargs, exact))
            record.rebuilt = relative(expected, out)
    return state.lineage.propagate(out, tensors(args, kwargs), SubLayer(record, record.start))


def chained(role: Context, x: Tensor) -> Any:
    """Return weights x v after the model's own reshaping; several parts if it was split."""
    for func, args, kwargs in role.chain:
        if func in torch_calls.RESHAPE:
            given = args[0] if args else next(iter(kwargs.values()))
            x = _laid_out(x, given)
            x = func(*swap(args, {id(given): x}), **swap(kwargs, {id(given): x}))
    return x


def _laid_out(x: Any, like: Any) -> Any:
    """Return the same numbers in a kernel's memory order, since other orders forbid some views."""
    if not isinstance(x, Tensor) or x.shape != like.shape or x.stride() == like.stride():
        return x
    return torch.empty_like(like, dtype=x.dtype).copy_(x)


def relative(expected: Tensor, got: Tensor) -> float:
    """Return the largest difference, relative to the largest expected value."""
    scale = expected.detach().abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return float((expected - got.double()).detach().abs().max() / scale)
