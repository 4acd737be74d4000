"""Composition of a tensor's axes, followed from the input through each call by rules.

An axis is a product of atoms, slowest first. An atom is a size and a kind. ``a`` numbers items of
the input (batch items, tokens, windows), ``f`` features of a projection (heads, channels), ``e``
copies, ``u`` is unknown. A merged ``(batch head)`` axis is ``a`` before ``f``, a ``(head batch)``
axis ``f`` before ``a``, so neither a name nor a size is needed.

Data is never read: a rule costs microseconds, and the results of a layer are cached for the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

Atom = tuple[str, int]  # kind and size
Axis = tuple[Atom, ...]  # empty for size 1
Axes = tuple[Axis, ...]  # one axis per dimension
Shape = tuple[int, ...]

ITEMS, FEATURES, COPIES, UNKNOWN = "a", "f", "e", "u"


def axis(kind: str, size: int) -> Axis:
    """Return an axis of a single kind."""
    return () if size == 1 else ((kind, size),)


def size_of(one: Axis) -> int:
    """Return the size of an axis."""
    return math.prod(size for _, size in one)


def kind_of(one: Axis) -> str | None:
    """Return the kind of an axis: ``u`` if its atoms differ, None for size 1."""
    kinds = {kind[0] for kind, _ in one} - {COPIES}
    if not kinds:
        return COPIES if one else None
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def of_input(shape: Shape, features: bool) -> Axes:
    """Return the axes of an input: all number items, but the last one of vectors holds features.

    With more than three dimensions the inner ones may be either.
    """
    kinds = [ITEMS] * len(shape)
    if len(shape) > 3:
        kinds[1:] = [UNKNOWN] * (len(shape) - 1)
    if features and shape:
        kinds[-1] = FEATURES
    return tuple(axis(kind, size) for kind, size in zip(kinds, shape, strict=True))


def resized(one: Axis, size: int) -> Axis:
    """Return an axis after places were cut, joined or padded: still of its kind."""
    return one if size_of(one) == size else axis(kind_of(one) or ITEMS, size)


# ---- the same numbers in another shape ---------------------------------------------------------


@lru_cache(maxsize=4096)
def reshaped(axes: Axes, shape: Shape) -> Axes:
    """Return the axes after a view: atoms are assigned in order, and split if a size needs it."""
    left = [atom for one in axes for atom in one]
    out: list[Axis] = []
    for size in shape:
        taken: list[Atom] = []
        wanted = size
        while wanted > 1:
            if not left:
                return unknown(shape)
            kind, have = left.pop(0)
            if not have:  # an empty tensor may take any shape
                return unknown(shape)
            if wanted % have == 0:
                taken.append((kind, have))
                wanted //= have
            elif have % wanted == 0:
                taken.append((kind, wanted))
                left.insert(0, (kind, have // wanted))
                wanted = 1
            elif left and left[0][0] == kind:  # neither divides the other: one atom of both
                left[0] = (kind, have * left[0][1])
            else:
                return unknown(shape)
        out.append(tuple(taken))
    return tuple(out) if not left else unknown(shape)


def unknown(shape: Shape) -> Axes:
    """Return axes of unknown kinds."""
    return tuple(axis(UNKNOWN, size) for size in shape)


@lru_cache(maxsize=4096)
def permuted(axes: Axes, name: str, given: tuple[Any, ...]) -> Axes | None:
    """Return the axes after a permutation of dimensions; None for other arguments."""
    order = _order(len(axes), name, given)
    return None if order is None else tuple(axes[i] for i in order)


def _order(dims: int, name: str, given: tuple[Any, ...]) -> list[int] | None:
    """Return the origin of each dimension, read from a tensor whose sizes number its dimensions."""
    call = getattr(Tensor, name, None) or getattr(torch, name, None)
    if call is None:
        return None
    sizes = torch.empty(tuple(range(2, 2 + dims)), device="meta")
    moved = call.__get__(sizes) if not callable(call) else call(sizes, *given)
    return [size - 2 for size in moved.shape]


# ---- products ----------------------------------------------------------------------------------


def vagueness(one: Axis) -> int:
    """Return the vagueness of an axis: unknown most, then copies, then named kinds."""
    kinds = {kind for kind, _ in one}
    return 3 * (UNKNOWN in kinds) + 2 * (kinds == {COPIES}) + (COPIES in kinds)


def broadcast(*many: Axes | None) -> Axes:
    """Return the axes of an element-wise result: for each dimension the least vague operand."""
    known = [axes for axes in many if axes is not None]
    dims = max((len(axes) for axes in known), default=0)
    out: list[Axis] = []
    for i in range(-dims, 0):
        here = [axes[i] for axes in known if len(axes) >= -i and axes[i]]
        out.append(min(here, key=vagueness, default=()))
    return tuple(out)


@lru_cache(maxsize=4096)
def multiplied(first: Axes, second: Axes) -> Axes | None:
    """Return the axes of a matrix product."""
    if len(first) < 2 or len(second) < 2:
        return None
    return (*broadcast(first[:-2], second[:-2]), first[-2], second[-1])


@lru_cache(maxsize=1024)
def letters(equation: str, dims: Shape) -> tuple[str, ...] | None:
    """Return an einsum's operands and result as letters, dots written out; None if none fits.

    Dots become capitals after Z in Unicode, so that they match no other letter.
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if len(operands) != len(dims):
        return None
    hidden = [size - len(op.replace("...", "")) for op, size in zip(operands, dims, strict=True)]
    most = max((n for op, n in zip(operands, hidden, strict=True) if "..." in op), default=0)
    if any(n < 0 or (n and "..." not in op) for op, n in zip(operands, hidden, strict=True)):
        return None
    rest = "".join(chr(0x100 + i) for i in range(most))
    full = [
        op.replace("...", rest[most - n :] if n else "")
        for op, n in zip(operands, hidden, strict=True)
    ]
    if not arrow:
        joined = "".join(full)
        once = sorted({c for c in joined if joined.count(c) == 1 and c not in rest})
        result = rest + "".join(once)
    return (*full, result.replace("...", rest))


@lru_cache(maxsize=4096)
def summed_over(equation: str, operands: tuple[Axes, ...]) -> Axes | None:
    """Return the axes of an einsum's result."""
    written = letters(equation, tuple(len(axes) for axes in operands))
    if written is None:
        return None
    *left, result = written
    found: dict[str, list[Axis]] = {}
    for op, axes in zip(left, operands, strict=True):
        for letter, one in zip(op, axes, strict=True):
            found.setdefault(letter, []).append(one)
    try:
        return tuple(broadcast(*((one,) for one in found[letter]))[0] for letter in result)
    except KeyError:
        return None


# ---- calls by what they do to axes ---------------------------------------------------------------


def cut(axes: Axes, shape: Shape) -> Axes | None:
    """Return axes after a cut, join or padding; other axes stay."""
    if len(axes) != len(shape):
        return None
    return tuple(resized(one, size) for one, size in zip(axes, shape, strict=True))


def indexed(axes: Axes, index: Any, shape: Shape) -> Axes | None:
    """Return the axes after ``x[index]``: integers, slices, None, dots, and lists or tensors."""
    entries = index if isinstance(index, tuple) else (index,)
    used = sum(
        (entry.dim() if isinstance(entry, Tensor) and entry.dtype == torch.bool else 1)
        for entry in entries
        if entry is not None and entry is not Ellipsis and not isinstance(entry, bool)
    )
    out: list[Axis] = []
    at = 0
    rest = len(axes) - used
    looked_up = False
    for entry in (*entries, *(() if Ellipsis in _plain(entries) else (Ellipsis,))):
        if entry is None:
            out.append(())
        elif entry is Ellipsis:
            out += axes[at : at + rest]
            at += rest
        elif isinstance(entry, slice):
            out.append(axes[at])
            at += 1
        elif isinstance(entry, int) and not isinstance(entry, bool):
            at += 1
        elif isinstance(entry, Tensor | list) and not looked_up:
            dims = torch.as_tensor(entry)
            if dims.dtype == torch.bool:
                at += dims.dim()
                out.append(axis(ITEMS, 2))
            else:
                kind = kind_of(axes[at]) or ITEMS
                out += [axis(kind, 2)] * dims.dim()
                at += 1
            looked_up = True
        else:
            return None
    return cut(tuple(out), shape)


def _plain(entries: Sequence[Any]) -> list[Any]:
    """Return the entries of an index that can be compared."""
    return [entry for entry in entries if entry is Ellipsis]


def parted(axes: Axes, shape: Shape) -> Axes | None:
    """Return the axes of one part of a split tensor; features record the number of parts."""
    if len(axes) != len(shape):
        return None
    return tuple(
        axis(f"{FEATURES}{size_of(one) // size}", size)
        if kind_of(one) == FEATURES and size_of(one) > size and size_of(one) % size == 0
        else resized(one, size)
        for one, size in zip(axes, shape, strict=True)
    )


def concatenated(parts: Sequence[Axes], shape: Shape, dim: int) -> Axes | None:
    """Return the axes of tensors joined along a dimension.

    Parts of features joined along an axis of items are heads before items. All else joined along an
    axis of items is more items.
    """
    if any(len(axes) != len(shape) for axes in parts):
        return None
    others, heads = broadcast(*parts), parts_of(parts, dim)
    found = {kind for axes in parts if (kind := kind_of(axes[dim])) not in (None, COPIES)}
    joined = axis(found.pop() if len(found) == 1 else UNKNOWN if found else ITEMS, shape[dim])
    if heads:
        joined = (*axis(FEATURES, heads), *others[dim])
    return tuple(joined if i == dim else one for i, one in enumerate(others))


def stacked(parts: Sequence[Axes], dim: int) -> Axes:
    """Return the axes of tensors stacked along a new dimension: heads, if they are parts of one."""
    kind = FEATURES if parts_of(parts, -1) else UNKNOWN
    return (*parts[0][:dim], axis(kind, len(parts)), *parts[0][dim:])


def parts_of(parts: Sequence[Axes], dim: int) -> int:
    """Return the number of parts if these are all parts of the same features, else 0."""
    wanted = f"{FEATURES}{len(parts)}"
    found = [
        any(kind == wanted for i, one in enumerate(axes) if i != dim for kind, _ in one)
        for axes in parts
    ]
    return len(parts) if len(parts) > 1 and all(found) else 0


def expanded(axes: Axes, shape: Shape, one_by_one: bool = False) -> Axes:
    """Return the axes after expansion: copies of the whole, or of each place separately."""
    out: list[Axis] = []
    for one, size in zip(((),) * (len(shape) - len(axes)) + axes, shape, strict=True):
        copies = axis(COPIES, size // max(1, size_of(one)))
        out.append((*one, *copies) if one_by_one else (*copies, *one))
    return tuple(out)


def convolved(axes: Axes, shape: Shape) -> Axes | None:
    """Return the axes after a convolution: channels are features, the others are places."""
    if len(axes) != len(shape) or len(shape) < 2:
        return None
    channels = len(shape) - 2 if len(shape) < 3 else 1
    return tuple(
        axis(FEATURES if i == channels else ITEMS, size) if i else resized(axes[0], size)
        for i, size in enumerate(shape)
    )


def reduced(axes: Axes, shape: Shape, dim: Any) -> Axes | None:
    """Return the axes after a mean, sum or maximum along some dimensions."""
    if dim is None:
        return axes if len(shape) == len(axes) else ()
    gone = {d % len(axes) for d in (dim if isinstance(dim, list | tuple) else (dim,))}
    if len(shape) == len(axes):
        return tuple(() if i in gone else one for i, one in enumerate(axes))
    return tuple(one for i, one in enumerate(axes) if i not in gone)
