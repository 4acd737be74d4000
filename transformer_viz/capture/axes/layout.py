"""From a module's own order of dimensions to ``[batch, head, query, key]``, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .atoms import COPIES, FEATURES, ITEMS, Axes, Axis, letters

#: Labels of dimensions: batch, head, key-value group, query, key; "bh" both in one, batch first.
Labels = tuple[str, ...]


KNOWN = frozenset((ITEMS, FEATURES, COPIES))  # kinds that tell batch and heads apart


def matmul_labels(dims: int) -> Labels | None:
    """The usual order of a product's dimensions by their number; None if there is none."""
    usual: dict[int, Labels] = {
        2: ("q", "k"),
        3: ("bh", "q", "k"),
        4: ("b", "h", "q", "k"),
        5: ("b", "g", "h", "q", "k"),
    }
    return usual.get(dims) or (("b",) * (dims - 3) + ("h", "q", "k") if dims > 5 else None)


def permuted(labels: Labels | None, order: tuple[int, ...]) -> Labels | None:
    """The labels after a permutation of dimensions."""
    return None if labels is None else tuple(labels[i] for i in order)


def oriented(labels: Labels | None, dims: int, softmax_dim: int) -> Labels | None:
    """Labels whose softmax dimension is the key: swaps query and key where k stood first."""
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
    """The order of one tensor's dimensions: queries and keys by label, batch and heads by what
    their axes are made of; where that is not known, by the usual order of labels.

    ``heads`` splits a merged dimension of which only the label is known.
    """

    labels: Labels
    shape: tuple[int, ...]
    heads: int | None = None
    axes: Axes | None = None

    @cached_property
    def told(self) -> bool:
        """Whether the axes themselves told batch and heads: nothing was assumed."""
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
        """What each part of each dimension is, in order: ``b, h, q`` or ``k``, and its size."""
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
        """Whether heads are told from what else stands on their axis, whatever that is: the inner
        dimensions of a picture may number places or features."""
        if self.axes is None or len(self.axes) != len(self.shape):
            return False
        kinds = {kind[0] for kind, _ in self.axes[dim]}
        return FEATURES in kinds and COPIES not in kinds

    def folded(self, dim: int) -> bool:
        """Whether heads stand on the axis of the queries, as where one key head serves them all."""
        if not self.told or self.axes is None:
            return False
        return {kind[0] for kind, _ in self.axes[dim]} == {FEATURES, ITEMS}

    @staticmethod
    def name(kind: str, before: Axis, label: str) -> str:
        """What an atom of a shared axis is: copies of features, or in the place of heads, are heads
        of a group."""
        if kind == COPIES:
            grouped = label in ("h", "g") or any(other[0][0] == FEATURES for other in before)
            return "h" if grouped else "b"
        return "h" if kind == FEATURES else "b"

    @cached_property
    def order(self) -> list[int]:
        """The parts in the order batch, head, query, key."""
        return [i for name in "bhqk" for i, (part, _) in enumerate(self.parts) if part == name]

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries and keys."""
        found = dict.fromkeys("bhqk", 1)
        for name, size in self.parts:
            found[name] *= size
        return found["b"], found["h"], found["q"], found["k"]

    def canonical(self, x: Tensor) -> Tensor:
        """``x`` as ``[batch, head, query, key]``; a view where one is possible."""
        if x.shape != torch.Size(self.shape):
            x = x.expand(self.shape)
        if self.order == list(range(len(self.parts))) and self.sizes == self.shape:
            return x
        x = x.reshape([size for _, size in self.parts])
        return x.permute(self.order).reshape(self.sizes)

    def original(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`canonical`."""
        x = x.reshape([self.parts[i][1] for i in self.order])
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return x.permute(back).reshape(self.shape)

    def split(self, merged: int) -> int:
        """How many heads a merged batch-and-head dimension holds."""
        if self.heads and merged % self.heads == 0:
            return self.heads
        return merged


def shared_labels(count: int) -> Labels:
    """The usual order of dimensions that queries and keys share, by their number."""
    usual: dict[int, Labels] = {0: (), 1: ("b",), 2: ("b", "h"), 3: ("b", "g", "h")}
    return usual.get(count, ("b",) * (count - 1) + ("h",))


def einsum_labels(equation: str, dims: tuple[int, ...]) -> Labels | None:
    """Labels of an einsum's result from the letters of its operands; None if it is no q·k.

    A letter of both operands that survives is batch, head or group (in this order), so are all but
    the last of the first operand alone, which is the query, as that of the second is the key.
    ``dims`` are the operands' numbers of dimensions.
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
    """Labels of a matrix product's factor: the first is [.., token, width], the second turned."""
    if labels is None:
        return None
    return (*labels[:-2], "q", "k") if first else (*labels[:-2], "k", "q")


def einsum_factor(
    equation: str, dims: tuple[int, ...], labels: Labels | None, first: bool
) -> Labels | None:
    """Labels of an einsum's factor from those of its result: own letter token, summed one width."""
    written = letters(equation, dims)
    if labels is None or written is None:
        return None
    mine, names = written[0 if first else 1], dict(zip(written[-1], labels, strict=True))
    found = tuple("k" if c not in names else "q" if names[c] in "qk" else names[c] for c in mine)
    return found if found.count("k") == 1 and found.count("q") == 1 else None
