"""Conversion between a module's order of dimensions and ``[batch, head, query, key]``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .atoms import COPIES, FEATURES, ITEMS, Axes, Axis, letters

#: Labels of dimensions: batch, head, key-value group, query, key; "bh" both in one, batch first.
Labels = tuple[str, ...]


KNOWN = frozenset((ITEMS, FEATURES, COPIES))  # kinds that distinguish batch and heads


def matmul_labels(dims: int) -> Labels | None:
    """Return the usual order of a product's dimensions by their number, or None."""
    usual: dict[int, Labels] = {
        2: ("q", "k"),
        3: ("bh", "q", "k"),
        4: ("b", "h", "q", "k"),
        5: ("b", "g", "h", "q", "k"),
    }
    return usual.get(dims) or (("b",) * (dims - 3) + ("h", "q", "k") if dims > 5 else None)


def permuted(labels: Labels | None, order: tuple[int, ...]) -> Labels | None:
    """Return the labels after a permutation of dimensions."""
    return None if labels is None else tuple(labels[i] for i in order)


def oriented(labels: Labels | None, dims: int, softmax_dim: int) -> Labels | None:
    """Return labels whose softmax dimension is the key: query and key swapped if k came first."""
    labels = labels if labels is not None and len(labels) == dims else matmul_labels(dims)
    if labels is None:
        return None
    dim = softmax_dim % dims
    if labels[dim] == "q":
        swap = {"q": "k", "k": "q"}
        labels = tuple(swap.get(label, label) for label in labels)
    return labels if labels[dim] == "k" else None


@dataclass(frozen=True)
class Layout:
    """Order of a tensor's dimensions.

    Queries and keys are known by label, batch and heads by the composition of their axes. Unknown
    axes follow the usual order of labels. ``heads`` splits a merged dimension with a known label
    only.
    """

    labels: Labels
    shape: tuple[int, ...]
    heads: int | None = None
    axes: Axes | None = None

    @cached_property
    def told(self) -> bool:
        """True if the axes themselves determine batch and heads, without assumptions."""
        if self.axes is None or len(self.axes) != len(self.shape):
            return False
        return all(
            kind[0] in KNOWN
            for label, one in zip(self.labels, self.axes, strict=True)
            if label not in ("q", "k")
            for kind, _ in one
        )

    @cached_property
    def parts(self) -> list[tuple[str, int]]:
        """Kind and size of each part of each dimension, in order: ``b, h, q`` or ``k``."""
        out: list[tuple[str, int]] = []
        for i, (label, size) in enumerate(zip(self.labels, self.shape, strict=True)):
            if label == "q" and self.folded(i):
                one = self.axes[i] if self.axes else ()
                out += [("h" if kind[0] == FEATURES else "q", n) for kind, n in one]
            elif label in ("q", "k"):
                out.append((label, size))
            elif self.told and self.axes is not None:
                one = self.axes[i]
                out += [
                    (self.name(kind[0], one[:at], label), n) for at, (kind, n) in enumerate(one)
                ]
            elif label == "b" and self.headed(i):
                one = self.axes[i] if self.axes else ()
                out += [("h" if kind[0] == FEATURES else "b", n) for kind, n in one]
            elif label == "bh":
                heads = self.split(size)
                out += [("b", size // heads), ("h", heads)]
            else:
                out.append(("h" if label in ("h", "g") else "b", size))
        return out

    def headed(self, dim: int) -> bool:
        """Return True if heads can be separated from the rest of their axis.

        The rest may be anything: the inner dimensions of a picture may number places or features.
        """
        if self.axes is None or len(self.axes) != len(self.shape):
            return False
        kinds = {kind[0] for kind, _ in self.axes[dim]}
        return FEATURES in kinds and COPIES not in kinds

    def folded(self, dim: int) -> bool:
        """Return True if heads are on the axis of the queries, as with one shared key head."""
        if not self.told or self.axes is None:
            return False
        return {kind[0] for kind, _ in self.axes[dim]} == {FEATURES, ITEMS}

    @staticmethod
    def name(kind: str, before: Axis, label: str) -> str:
        """Return the part that an atom of a shared axis belongs to.

        Copies of features, or copies in the place of heads, are heads of a group.
        """
        if kind == COPIES:
            grouped = label in ("h", "g") or any(other[0][0] == FEATURES for other in before)
            return "h" if grouped else "b"
        return "h" if kind == FEATURES else "b"

    @cached_property
    def order(self) -> list[int]:
        """Indices of the parts in the order batch, head, query, key."""
        return [i for name in "bhqk" for i, (part, _) in enumerate(self.parts) if part == name]

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries and keys."""
        found = dict.fromkeys("bhqk", 1)
        for name, size in self.parts:
            found[name] *= size
        return found["b"], found["h"], found["q"], found["k"]

    def canonical(self, x: Tensor) -> Tensor:
        """Return ``x`` as ``[batch, head, query, key]``, as a view if possible."""
        if x.shape != torch.Size(self.shape):
            x = x.expand(self.shape)
        if self.order == list(range(len(self.parts))) and self.sizes == self.shape:
            return x
        x = x.reshape([size for _, size in self.parts])
        return x.permute(self.order).reshape(self.sizes)

    def original(self, x: Tensor) -> Tensor:
        """Apply the inverse of :meth:`canonical`."""
        x = x.reshape([self.parts[i][1] for i in self.order])
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return x.permute(back).reshape(self.shape)

    def split(self, merged: int) -> int:
        """Return the number of heads in a merged batch-and-head dimension."""
        if self.heads and merged % self.heads == 0:
            return self.heads
        return merged


def shared_labels(count: int) -> Labels:
    """Return the usual order of dimensions shared by queries and keys, by their number."""
    usual: dict[int, Labels] = {0: (), 1: ("b",), 2: ("b", "h"), 3: ("b", "g", "h")}
    return usual.get(count, ("b",) * (count - 1) + ("h",))


def einsum_labels(equation: str, dims: tuple[int, ...]) -> Labels | None:
    """Return labels of an einsum's result from its operands' letters; None if it is no q·k.

    A remaining letter of both operands is batch, head or group (in this order). So are all letters
    of the first operand alone but the last, which is the query. The last letter of the second
    operand alone is the key. ``dims`` are the operands' numbers of dimensions.
    """
    written = letters(equation, dims)
    if written is None or len(written) != 3:
        return None
    left, right, result = written
    queries = [letter for letter in result if letter not in right]
    keys = [letter for letter in result if letter not in left]
    if not queries or len(keys) != 1:
        return None
    shared = [letter for letter in result if letter not in (queries[-1], keys[0])]
    names = dict(zip(shared, shared_labels(len(shared)), strict=True))
    names |= {queries[-1]: "q", keys[0]: "k"}
    return tuple(names[letter] for letter in result)


def factor_labels(labels: Labels | None, first: bool) -> Labels | None:
    """Return labels of a matrix product's factor: [.., token, width], the second transposed."""
    if labels is None:
        return None
    return (*labels[:-2], "q", "k") if first else (*labels[:-2], "k", "q")


def einsum_factor(
    equation: str, dims: tuple[int, ...], labels: Labels | None, first: bool
) -> Labels | None:
    """Return labels of an einsum's factor: its own letter the token, the summed one the width."""
    written = letters(equation, dims)
    if labels is None or written is None:
        return None
    mine, names = written[0 if first else 1], dict(zip(written[-1], labels, strict=True))
    found = tuple("k" if c not in names else "q" if names[c] in "qk" else names[c] for c in mine)
    return found if found.count("k") == 1 and found.count("q") == 1 else None
