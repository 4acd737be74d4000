"""What becomes of a tensor's role when one more call is made on it: rules without a memory.

`lineage.py` asks these rules at each call that has no handler.
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
    """The same call on another tensor in the place of ``x``."""
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
    """The role of a result whose operand ``x`` had one; None where the call ends it."""
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
    """Scores after one more call; the unmasked twin and the mask go the same way."""
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
    """A mask or bias of scores to which columns were joined, ``first`` of them in front: the new
    ones are visible, without bias."""
    given = given.expand(x.shape)
    grown = torch.zeros(out.shape, dtype=given.dtype, device=out.device)
    places = [0 if a == b else first for a, b in zip(x.shape, out.shape, strict=True)]
    grown[tuple(slice(at, at + n) for at, n in zip(places, x.shape, strict=True))] = given
    return grown


def _first_place(role: Scores, x: Tensor, func: Any, args: Args, kwargs: Kwargs) -> int | None:
    """How many columns a call joins before the first key of scores; None for scores that are padded
    along another axis, or cut."""
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
    """The names of the dimensions after a call, and what they were before a view put the queries
    on one axis with other dimensions: another view may take them apart again."""
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
    """The names of the dimensions after a call; None where they can no longer be told."""
    if labels is None or not isinstance(out, Tensor) or len(labels) != x.dim():
        return None
    if func in torch_calls.TURNS or (
        func in torch_calls.RESHAPE and getattr(func, "__name__", "") in PERMUTES
    ):
        # A small tensor whose sizes are its dimension numbers shows where each one went.
        sizes = torch.empty(tuple(range(2, 2 + x.dim())), device="meta")
        moved = func(*swap(args, {id(x): sizes}), **swap(kwargs, {id(x): sizes}))
        return tuple(labels[size - 2] for size in moved.shape)
    if out.dim() == x.dim() + 1 and out.shape == (*x.shape, 1):
        return (*labels, "1")  # one place more, to be broadcast over
    return labels if out.dim() == x.dim() else None


def packed(func: Any, parents: list[Tensor], out: Any) -> Packed | None:
    """Query heads that were moved to the token axis of a lone token, a group of heads a key."""
    if func not in torch_calls.VIEW or not isinstance(out, Tensor):
        return None
    if not out.dim() == 4 == parents[0].dim():
        return None
    (batch, heads, tokens, width), group = parents[0].shape, out.shape[2]
    lone = tokens == 1 < group and heads % group == 0
    return Packed() if lone and out.shape == (batch, heads // group, group, width) else None


def broadcast(x: Tensor, args: Args) -> bool:
    """Whether every other operand is one number a token, or a vector: as inside a norm."""
    others = [t for t in tensors(args) if t is not x]
    return all(t.dim() < 2 or t.shape[-1] == 1 for t in others)
