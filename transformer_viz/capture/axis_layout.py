"""From a module's own order of dimensions to ``[batch, head, query, key]``, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: Labels of dimensions: batch, head, key-value group, query, key; "bh" both in one, batch first.
Labels = tuple[str, ...]


def matmul_labels(dims: int) -> Labels | None:
    """The usual order of a product's dimensions by their number; None if there is none."""
    usual: dict[int, Labels] = {
        3: ("bh", "q", "k"),
        4: ("b", "h", "q", "k"),
        5: ("b", "g", "h", "q", "k"),
    }
    return usual.get(dims)


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
    """The order of one tensor's dimensions, its batch and its heads."""

    labels: Labels
    shape: tuple[int, ...]
    heads: int | None

    @property
    def order(self) -> list[int]:
        return [
            self.labels.index(name)
            for name in ("b", "bh", "g", "h", "q", "k")
            if name in self.labels
        ]

    def canonical(self, x: Tensor) -> Tensor:
        """``x`` as ``[batch, head, query, key]``; a view where one is possible."""
        if x.shape != torch.Size(self.shape):
            x = x.expand(self.shape)
        if self.order != list(range(x.dim())):
            x = x.permute(self.order)
        if "bh" in self.labels:
            heads = self.split(x.shape[0])
            return x.unflatten(0, (x.shape[0] // heads, heads))
        if "g" in self.labels:
            x = x.flatten(1, 2) if "b" in self.labels else x.flatten(0, 1)
        if "h" not in self.labels:
            x = x.unsqueeze(1 if "b" in self.labels else 0)
        return x if "b" in self.labels else x.unsqueeze(0)

    def original(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`canonical`."""
        inner = [self.shape[i] for i in self.order]
        x = x.reshape(inner)
        inverse = [0] * len(self.order)
        for position, dim in enumerate(self.order):
            inverse[dim] = position
        return x if inverse == list(range(x.dim())) else x.permute(inverse)

    def split(self, merged: int) -> int:
        """How many heads a merged batch-and-head dimension holds."""
        if self.heads and merged % self.heads == 0:
            return self.heads
        return merged


def einsum_labels(equation: str) -> Labels | None:
    """Labels of an einsum's result from the letters of its operands; None if it is no q·k.

    A letter of both operands that survives is batch, head or group (in this order), the one of
    the first operand alone is the query, the one of the second alone the key.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    if "." in equation or not arrow or operands.count(",") != 1:
        return None
    left, right = operands.split(",")
    shared = [letter for letter in result if letter in left and letter in right]
    queries = [letter for letter in result if letter not in right]
    keys = [letter for letter in result if letter not in left]
    if len(queries) != 1 or len(keys) != 1 or not 1 <= len(shared) <= 3:
        return None
    usual = {1: ("b",), 2: ("b", "h"), 3: ("b", "g", "h")}[len(shared)]
    names = dict(zip(shared, usual, strict=True)) | {queries[0]: "q", keys[0]: "k"}
    return tuple(names[letter] for letter in result)


def factor_labels(labels: Labels | None, first: bool) -> Labels | None:
    """Labels of a matrix product's factor: the first is [.., token, width], the second turned."""
    if labels is None:
        return None
    return (*labels[:-2], "q", "k") if first else (*labels[:-2], "k", "q")


def einsum_factor(equation: str, labels: Labels | None, first: bool) -> Labels | None:
    """Labels of an einsum's factor from those of its result: own letter token, summed one width."""
    operands, _, result = equation.replace(" ", "").partition("->")
    if labels is None:
        return None
    names = dict(zip(result, labels, strict=True))
    mine = operands.split(",")[0 if first else 1]
    found = tuple("k" if c not in names else "q" if names[c] in "qk" else names[c] for c in mine)
    return found if found.count("k") == 1 and found.count("q") == 1 else None
