"""Rules for the role of a tensor after one more call, without state.

`lineage.py` applies these rules at each call without a handler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from . import torch_calls
from .roles import (
    Biased,
    Context,
    Folded,
    Located,
    Packed,
    Scores,
    Stream,
    SubLayer,
    Table,
    Weights,
)
from .score_scale import multiplied
from .torch_calls import Args, Kwargs, in_place, swap, tensors

PERMUTES = {"permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis", "t"}


def replay(func: Any, args: Args, kwargs: Kwargs, x: Tensor, other: Tensor) -> Tensor:
    """Return the result of the same call with another tensor in place of ``x``."""
    if other.shape != x.shape:
        other = other.expand(x.shape)
    other = other.clone() if in_place(func) else other.contiguous()  # a view of it must be possible
    result = func(*swap(args, {id(x): other}), **swap(kwargs, {id(x): other}))
    assert isinstance(result, Tensor)
    return result


def passed(
    role: Any,
    x: Tensor,
    out: Any,
    func: Any,
    args: Args,
    kwargs: Kwargs,
) -> Any:
    """Return the role of a result whose operand ``x`` had one; None if the call ends it."""
    if func in torch_calls.PAD and not isinstance(role, Scores):
        return None
    if isinstance(role, Located):
        scores = passed(role.scores, x, out, func, args, kwargs) if role.scores else None
        return Located(scores)
    if func not in torch_calls.PASS:
        return None
    if isinstance(role, Scores):
        return follow_scores(role, x, out, func, args, kwargs)
    if isinstance(role, Weights):
        same = role.same and func in torch_calls.CAST
        labels, folded = refolded(role, x, out, func, args, kwargs)
        return replace(role, labels=labels, folded=folded, same=same)
    if isinstance(role, Context):
        step = (func, args, kwargs)
        kept = func in torch_calls.IDENTITY
        return replace(role, chain=(*role.chain, step)) if kept else None
    if isinstance(role, SubLayer):
        return replace(role, exact=role.exact and func in torch_calls.IDENTITY)
    if isinstance(role, Stream):
        kept = func in torch_calls.IDENTITY or func in torch_calls.MULTIPLY or broadcast(x, args)
        return role if kept else None
    if isinstance(role, Table) and func in torch_calls.IDENTITY:
        return role
    if isinstance(role, Biased) and func in torch_calls.IDENTITY:
        return Biased(
            replay(func, args, kwargs, x, role.base), replay(func, args, kwargs, x, role.hidden)
        )
    return None


def follow_scores(role: Scores, x: Tensor, out: Any, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Return scores after one more call, with their unmasked twin and mask."""
    if not isinstance(out, Tensor) or out.dim() < 2:
        return None
    joins = func in torch_calls.JOIN or func in torch_calls.PAD
    first = _first_place(role, x, func, args, kwargs) if joins else 0
    if first is None or (role.front and func in torch_calls.RESHAPE and out.shape != x.shape):
        return None
    labels, folded = refolded(role, x, out, func, args, kwargs)
    role = multiplied(role, x, func, args, kwargs)
    bias = role.bias
    if bias is not None and func in torch_calls.RESHAPE:
        bias = replay(func, args, kwargs, x, bias)
    elif bias is not None and joins:
        bias = _joined(bias, x, out, first)
    grown = role.exponential or func in torch_calls.EXPONENTIAL
    role = replace(role, labels=labels, folded=folded, bias=bias, exponential=grown)
    role = replace(role, front=role.front + first)
    if role.base is None or role.hidden is None:
        return role
    hidden = role.hidden
    if func in torch_calls.RESHAPE or joins:
        hidden = (
            replay(func, args, kwargs, x, hidden)
            if func in torch_calls.RESHAPE
            else _joined(hidden, x, out, first)
        )
    return replace(role, base=replay(func, args, kwargs, x, role.base), hidden=hidden)


def _joined(given: Tensor, x: Tensor, out: Tensor, first: int) -> Tensor:
    """Return a mask or bias of scores with joined columns, ``first`` of them before the keys.

    New columns are visible, without bias.
    """
    given = given.expand(x.shape)
    grown = torch.zeros(out.shape, dtype=given.dtype, device=out.device)
    places = [0 if a == b else first for a, b in zip(x.shape, out.shape, strict=True)]
    grown[tuple(slice(at, at + n) for at, n in zip(places, x.shape, strict=True))] = given
    return grown


def _first_place(role: Scores, x: Tensor, func: Any, args: Args, kwargs: Kwargs) -> int | None:
    """Return the number of columns joined before the first key; None for other padding or cuts."""
    if func in torch_calls.PAD:
        amounts = list(kwargs["pad"] if "pad" in kwargs else args[1])
        return amounts[0] if len(amounts) == 2 and min(amounts) >= 0 else None
    parts = args[0] if args else kwargs["tensors"]
    dim: int = kwargs["dim"] if "dim" in kwargs else (*args, 0)[1]
    if not role.labels or len(role.labels) != x.dim() or role.labels[dim] != "k":
        return 0
    place = next((n for n, part in enumerate(parts) if part is x), 0)
    return sum(part.shape[dim] for part in parts[:place])


def refolded(
    role: Scores | Weights, x: Tensor, out: Any, func: Any, args: Args, kwargs: Any
) -> tuple[tuple[str, ...] | None, Folded | None]:
    """Return the labels after a call, and shape and labels from before a folding view.

    Such a view merges the queries with other dimensions; another view may split them again.
    """
    if func not in torch_calls.RESHAPE:
        return relabel(role.labels, x, out, func, args, kwargs), role.folded
    if func in torch_calls.FOLD and isinstance(out, Tensor) and x.dim() and out.dim():
        if role.folded is not None:
            back = out.shape == role.folded[0]
            keys = out.shape[-1] == x.shape[-1]
            return (role.folded[1], None) if back else (None, role.folded if keys else None)
        labels = role.labels or ()
        merged = out.shape[-1] == x.shape[-1] and out.shape[-2:-1] != x.shape[-2:-1]
        if merged and labels[-2:] == ("q", "k") and len(labels) == x.dim() > out.dim():
            return None, (tuple(x.shape), labels)
    return relabel(role.labels, x, out, func, args, kwargs), None


def relabel(
    labels: tuple[str, ...] | None, x: Tensor, out: Any, func: Any, args: Args, kwargs: Any
) -> tuple[str, ...] | None:
    """Return the labels of the dimensions after a call; None if unknown."""
    if labels is None or not isinstance(out, Tensor) or len(labels) != x.dim():
        return None
    if func in torch_calls.TURNS or (
        func in torch_calls.RESHAPE and getattr(func, "__name__", "") in PERMUTES
    ):
        # A small tensor whose sizes number its dimensions shows the new place of each.
        sizes = torch.empty(tuple(range(2, 2 + x.dim())), device="meta")
        moved = func(*swap(args, {id(x): sizes}), **swap(kwargs, {id(x): sizes}))
        return tuple(labels[size - 2] for size in moved.shape)
    if out.dim() == x.dim() + 1 and out.shape == (*x.shape, 1):
        return (*labels, "1")  # a new axis of size 1, for broadcasting
    return labels if out.dim() == x.dim() else None


def packed(func: Any, parents: list[Tensor], out: Any) -> Packed | None:
    """Return the role of query heads on the token axis of a lone token, grouped by key head."""
    if func not in torch_calls.VIEW or not isinstance(out, Tensor):
        return None
    if not out.dim() == 4 == parents[0].dim():
        return None
    (batch, heads, tokens, width), group = parents[0].shape, out.shape[2]
    lone = tokens == 1 < group and heads % group == 0
    return Packed() if lone and out.shape == (batch, heads // group, group, width) else None


def broadcast(x: Tensor, args: Args) -> bool:
    """Return True if every other operand is a vector or one number per token, as in a norm."""
    others = [t for t in tensors(args) if t is not x]
    return all(t.dim() < 2 or t.shape[-1] == 1 for t in others)
