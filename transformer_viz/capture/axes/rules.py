"""Mapping from torch calls to the rules of `atoms.py`, by name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from types import EllipsisType, NoneType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import Parameter

from ..torch_calls import SEQUENCES, tensors
from .atoms import (
    FEATURES,
    ITEMS,
    UNKNOWN,
    Axes,
    Shape,
    axis,
    broadcast,
    concatenated,
    convolved,
    cut,
    expanded,
    indexed,
    kind_of,
    multiplied,
    of_input,
    parted,
    permuted,
    reduced,
    reshaped,
    resized,
    size_of,
    stacked,
    summed_over,
    unknown,
)


class Look(Protocol):
    """Known facts about a call's operands."""

    def axes(self, x: Tensor) -> Axes | None:
        """Return the axes of an operand."""

    def origin(self, x: Tensor) -> frozenset[int]:
        """Return the inputs that an operand was computed from; empty for constants."""

    def facts(self, x: Tensor) -> tuple[Any, ...] | None:
        """Return all facts that the rules use of an operand, hashable; None if not settled yet."""


def of_parameter(shape: Shape) -> Axes:
    """Return the axes of a parameter used as an activation (learned tokens, tables).

    The last axis holds features, the one before it tokens; those before may be items or heads.
    """
    known = (ITEMS, FEATURES)[-len(shape) :] if shape else ()
    kinds = [UNKNOWN] * (len(shape) - len(known)) + list(known)
    return tuple(axis(kind, size) for kind, size in zip(kinds, shape, strict=True))


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


SAME_NUMBERS = _names(
    """view reshape flatten unflatten view_as reshape_as squeeze squeeze_ unsqueeze unsqueeze_
    contiguous clone detach alias _unsafe_view"""
)
PERMUTE = _names(
    "permute transpose transpose_ swapaxes swapdims movedim moveaxis t adjoint T mT H mH"
)
CUT = _names("narrow index_select roll flip pad dropout")
EXPAND = _names("expand expand_as repeat tile")
REDUCE = _names("mean sum amax amin max min prod logsumexp norm std var any all argmax")
#: Calls that write rows at indexed places: the result has the axes of the overwritten tensor.
WRITE = _names("index_add index_copy index_put index_reduce scatter scatter_add scatter_reduce")
CONVOLVE = _names("conv1d conv2d conv3d")


UNASKED: Any = object()
_known: dict[Any, Any] = {}  # a call and the shape of a result -> the axes of that result, or None
MOST = 8192  # number of cached calls: those of the layers of a few models
#: Arguments used by value. Fractional numbers and slices do not affect any rule.
PLAIN = frozenset((int, bool, str, NoneType, EllipsisType, torch.dtype, torch.device))
VAGUE = frozenset((float, slice, torch.memory_format))


def results(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outs: list[Tensor], look: Look
) -> list[Axes | None]:
    """Return the axes of each tensor that a call returned, None if no rule applies.

    A rule sees only the values in `described`. Equal calls (in the next layer or the next run) have
    equal results, which are cached.
    """
    name = name_of(func)
    call = described(args, look)
    named = described(kwargs.values(), look) if kwargs and call is not None else ()
    if call is None or named is None:
        return [after(name, args, kwargs, x, look) for x in outs]
    found = []
    for x in outs:
        key = (name, call, named, tuple(kwargs), x.shape)
        axes = _known.get(key, UNASKED)
        if axes is UNASKED:
            axes = after(name, args, kwargs, x, look)
            if len(_known) >= MOST:
                _known.clear()
            _known[key] = axes
        found.append(axes)
    return found


def described(values: Iterable[Any], look: Look) -> tuple[Any, ...] | None:
    """Return arguments as a cache key with their types (True is not 1); None if that fails."""
    out: list[Any] = []
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            out += (kind, value)
            continue
        part: Any = kind
        if isinstance(value, Tensor):
            part = look.facts(value)
        elif isinstance(value, SEQUENCES):
            part = described(value, look)
        elif kind not in VAGUE:
            return None
        if part is None:
            return None
        out += (kind, part)
    return tuple(out)


def after(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor, look: Look
) -> Axes | None:
    """Return the axes of a call's result; None if no rule applies.

    ``look`` gives the known facts about its operands.
    """
    x = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
    shape = tuple(out.shape)
    found = None
    if name in ("cat", "concat", "concatenate", "stack", "einsum"):
        found = _joined(name, args, kwargs, shape, look)
    elif x is not None:
        found = _moved(name, x, args, kwargs, shape, look)
        found = found or _made(name, x, args, kwargs, shape, look)
    if found is not None and tuple(map(size_of, found)) == shape:
        return found
    return None


@lru_cache(maxsize=2048)
def name_of(func: Any) -> str:
    """Return a call's name without the underscores of operators; for a property its name."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        name = getattr(getattr(func, "__self__", None), "__name__", "")
    return name.removesuffix(".default")


def _moved(name: str, x: Tensor, args: Any, kwargs: Any, shape: Shape, look: Look) -> Axes | None:
    """Return the axes after calls that move numbers."""
    axes = look.axes(x)
    if axes is None:
        return None
    if name in SAME_NUMBERS:
        return reshaped(axes, shape)
    if name in PERMUTE:
        return permuted(axes, name, _plain_arguments(args[1:], kwargs))
    if name in EXPAND:
        return expanded(axes, shape)
    if name in ("chunk", "split", "tensor_split"):
        return parted(axes, shape)
    if name in CUT:
        return cut(axes, shape)
    if name in ("select", "unbind"):
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % len(axes)
        return (*axes[:dim], *axes[dim + 1 :])
    if name == "__getitem__":
        return indexed(axes, args[1], shape)
    if name == "unfold":
        return _windows(args, kwargs, axes, shape)
    if name == "repeat_interleave" and len(shape) == len(axes):
        return expanded(axes, shape, one_by_one=True)
    return None


def _windows(args: Any, kwargs: Any, axes: Axes, shape: Shape) -> Axes | None:
    """Return the axes after windows along an axis.

    `Tensor.unfold` puts their places last, `F.unfold` after the channels of a picture, with the
    windows last.
    """
    if len(axes) == 4 and len(shape) == 3:
        places = shape[1] // max(1, size_of(axes[1]))
        return (axes[0], (*axes[1], *axis(ITEMS, places)), axis(ITEMS, shape[2]))
    dim = kwargs.get("dimension", args[1] if len(args) > 1 else None)
    if not isinstance(dim, int) or len(shape) != len(axes) + 1:
        return None
    dim %= len(axes)
    kind = kind_of(axes[dim]) or ITEMS
    windows = resized(axes[dim], shape[dim])
    return (*axes[:dim], windows, *axes[dim + 1 :], axis(kind, shape[-1]))


def _plain_arguments(args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Return arguments in hashable form."""
    return tuple(tuple(v) if isinstance(v, list) else v for v in (*args, *kwargs.values()))


def _made(name: str, x: Tensor, args: Any, kwargs: Any, shape: Shape, look: Look) -> Axes | None:
    """Return the axes after calls that compute new numbers."""
    axes = look.axes(x)
    if name in ("linear", "addmm"):
        source = axes if name == "linear" else look.axes(args[1])
        return None if source is None else (*source[:-1], axis(FEATURES, shape[-1]))
    if name in ("matmul", "__matmul__", "__rmatmul__", "bmm", "mm", "baddbmm"):
        given = tensors(args, {key: v for key, v in kwargs.items() if key != "out"})[-2:]
        pair = given[::-1] if name == "__rmatmul__" else given
        first, second = (look.axes(t) for t in pair)
        if look.origin(pair[0]) and not look.origin(pair[1]):  # a projection per head
            second = tuple(axis(FEATURES, size) for size in pair[1].shape)
        elif second is None and first is not None:
            second = (*first[:-2], (), axis(UNKNOWN, shape[-1]))
        elif first is None and second is not None and len(shape) > 1:
            first = (*second[:-2], axis(UNKNOWN, shape[-2]), ())
        return None if first is None or second is None else multiplied(first, second)
    if name in CONVOLVE:
        return None if axes is None else convolved(axes, shape)
    if name in ("embedding", "embedding_bag"):
        return _looked_up(args, kwargs, shape, look)
    if name.removesuffix("_") in WRITE:
        return None if axes is None else cut(axes, shape)
    if name in REDUCE and axes is not None and len(shape) < len(axes) + 1:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if tuple(map(size_of, axes)) != shape:
            return reduced(axes, shape, dim)
    return _each(tensors(args, kwargs), shape, look) or (
        cut(axes, shape) if axes is not None else None
    )


def _each(given: list[Tensor], shape: Shape, look: Look) -> Axes | None:
    """Return the axes of an element-wise call: those of its activations, or else its constants.

    Unknown axes come from the other activations, never from a mask, a table or an index.
    """
    given = [t for t in given if t.is_floating_point()] or given
    activations = [t for t in given if look.origin(t)] or given
    joint = broadcast(*(look.axes(t) for t in activations))
    return joint if joint and tuple(map(size_of, joint)) == shape else None


def _looked_up(args: Any, kwargs: Any, shape: Shape, look: Look) -> Axes | None:
    """Return the axes of an embedding: those of the ids, then features."""
    ids = next((t for t in tensors(args, kwargs) if not t.is_floating_point()), None)
    if ids is None:
        return None
    axes = look.axes(ids) or of_input(tuple(ids.shape), False)
    return (*axes[: len(shape) - 1], axis(FEATURES, shape[-1]))


def _operand(x: Any, look: Look) -> Axes | None:
    """Return the axes of an einsum's operand.

    Axes of a parameter are unknown: they may be features (a projection) or tokens (learned
    queries). The other operand may know more about the same axis.
    """
    if not isinstance(x, Tensor):
        return None
    known = None if isinstance(x, Parameter) else look.axes(x)
    return unknown(tuple(x.shape)) if known is None else known


def _joined(name: str, args: Any, kwargs: Any, shape: Shape, look: Look) -> Axes | None:
    """Return the axes after calls on a list of tensors, or with a text as first argument."""
    if name == "einsum":
        operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
        axes = [_operand(t, look) for t in operands]
        if not isinstance(args[0], str) or any(one is None for one in axes):
            return None
        return summed_over(args[0], tuple(one for one in axes if one is not None))
    many = args[0] if args else kwargs.get("tensors", ())
    known = [look.axes(t) for t in many if isinstance(t, Tensor) and t.numel()]
    if not known or any(one is None for one in known):
        return None
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0) % len(shape)
    parts = [one for one in known if one is not None]
    if name == "stack":
        return stacked(parts, dim)
    return concatenated(parts, shape, dim)
