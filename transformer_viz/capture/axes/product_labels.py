"""Labels of the two factors in the product of weights and values."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .. import torch_calls
from ..torch_calls import Args, Kwargs, tensors
from .atoms import letters
from .layout import oriented, shared_labels


def operands(args: Args, kwargs: Kwargs) -> list[Tensor]:
    """Return the factors of a product, without an ``out`` tensor."""
    return tensors(args, {name: value for name, value in kwargs.items() if name != "out"})


def contracted(
    func: Any, args: Args, kwargs: Kwargs, labels: tuple[str, ...] | None, p: Tensor, v: Tensor
) -> tuple[str, ...] | None:
    """Return the labels of the weights if this product sums over their keys, else None."""
    given = operands(args, kwargs)
    if func in torch_calls.EINSUM:
        place = next(i for i, x in enumerate(given) if x is p)
        other = next(i for i, x in enumerate(given) if x is v and i != place)
        return einsum_weights(args[0], labels, [x.dim() for x in given], place, other)
    left = given[-2] is p
    if p.dim() < 2 or v.dim() < 2:
        return None
    labels = oriented(labels, p.dim(), -1 if left else -2)
    return labels if labels and p.shape[-1 if left else -2] == v.shape[-2 if left else -1] else None


def value_labels(
    func: Any, args: Args, kwargs: Kwargs, labels: tuple[str, ...], p: Tensor, v: Tensor
) -> tuple[str, ...] | None:
    """Return the labels of v: its token axis is the summed one."""
    given = operands(args, kwargs)
    if func not in torch_calls.EINSUM:
        first = given[-2] is not p  # True if v is the left factor
        return (*labels[:-2], "k", "q") if first else (*labels[:-2], "q", "k")
    written = letters(args[0], tuple(x.dim() for x in given))
    assert written is not None
    mine = next(w for w, x in zip(written, given, strict=False) if x is v and x is not p)
    other = next(w for w, x in zip(written, given, strict=False) if x is p)
    names = dict(zip(other, labels, strict=True))
    found = tuple("k" if c not in names else "q" if names[c] == "k" else names[c] for c in mine)
    return found if found.count("k") == 1 and found.count("q") == 1 else None


def einsum_weights(
    equation: str, labels: tuple[str, ...] | None, dims: list[int], place: int, other: int
) -> tuple[str, ...] | None:
    """Return the labels of the weights in an einsum.

    The letter summed with the values is the key; the last remaining letter of the weights alone is
    the query.
    """
    written = letters(equation, tuple(dims))
    if written is None:
        return None
    mine, values, result = written[place], written[other], written[-1]
    key = [c for c in mine if c in values and c not in result]
    if len(key) != 1:
        return None
    if labels is not None and len(labels) == len(mine):
        return labels if labels[mine.index(key[0])] == "k" else None
    query = [c for c in mine if c in result and c not in values]
    if not query:
        return None
    shared = [c for c in mine if c not in (query[-1], key[0])]
    names = dict(zip(shared, shared_labels(len(shared)), strict=True))
    names |= {query[-1]: "q", key[0]: "k"}
    return tuple(names[c] for c in mine)
