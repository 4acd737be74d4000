"""Attentions by an author who read only the public pages; each knows its own truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

KINDS = ("head", "temperature", "hidden")


@dataclass(frozen=True)
class Known:
    """What a module must give: its output and its maps ``[batch, head, query, key]``."""

    output: torch.Tensor
    maps: tuple[torch.Tensor, ...]


class Stranger(nn.Module):
    """A module with a fixed seed, an example input, and its own truth.

    ``known(inputs, kind)`` is a second computation that never calls ``forward``. The kind is
    "" (no edit), "head" (head 0 adds nothing), "temperature" (scores / 2) or "hidden" (no key 1).
    """

    readings: tuple[tuple[str, str], ...] = ()  # other results of an edit that would be right too
    batched = True
    gradients = False
    shape = (2, 6, 16)  # of the example: `[batch, token, features]`, unless a module says otherwise
    modules: ClassVar[dict[str, type[Stranger]]] = {}

    def __init_subclass__(cls, listed: bool = True) -> None:
        """Enter a module into the list; ``listed=False`` is a base of others."""
        if listed:
            Stranger.modules[cls.__name__] = cls

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.build()
        self.eval()

    def example(self) -> tuple:
        return (torch.randn(*self.shape, generator=torch.Generator().manual_seed(7)),)

    def first(self, inputs: tuple) -> tuple:
        """The first item of the batch by itself."""
        return tuple(x[:1] if isinstance(x, torch.Tensor) else x for x in inputs)

    def truth(self, *inputs) -> tuple[torch.Tensor, ...]:
        """The maps of a run without edits."""
        return self.known(inputs, "").maps

    def edited(self, inputs: tuple, kind: str) -> list[torch.Tensor]:
        """Every output that would obey the law of an edit."""
        kinds = [kind, *(other for of, other in self.readings if of == kind)]
        return [self.known(inputs, each).output for each in kinds]


def split(x: torch.Tensor, heads: int = 4) -> torch.Tensor:
    """``[batch, token, d]`` as ``[batch, head, token, d / heads]``."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x: torch.Tensor) -> torch.Tensor:
    """``[batch, head, token, d]`` as ``[batch, token, head * d]``."""
    return x.transpose(1, 2).flatten(2)


def law(scores: torch.Tensor, kind: str) -> torch.Tensor:
    """The weights of ``[batch, head, query, key]`` scores under an edit."""
    if kind == "temperature":
        scores = scores / 2
    if kind == "hidden" and scores.shape[-1] > 1:
        hidden = torch.arange(scores.shape[-1]) == 1
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores.double(), -1).to(scores.dtype)


def heads_left(weights: torch.Tensor, kind: str) -> torch.Tensor:
    """The weights with head 0 off, if that is the edit."""
    if kind != "head":
        return weights
    keep = torch.ones(weights.shape[1])
    keep[0] = 0
    return weights * keep[:, None, None]


def mixed(weights: torch.Tensor, values: torch.Tensor, kind: str) -> torch.Tensor:
    """Weights times values ``[batch, head, key, d]``, with head 0 off if asked."""
    return torch.einsum("bhqk,bhkd->bhqd", heads_left(weights, kind), values)


def scaled(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Scores of ``[batch, head, token, d]``."""
    return torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])


def look(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as most modules write it; no part of a truth."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def linears(count: int) -> tuple[nn.Linear, ...]:
    return tuple(nn.Linear(16, 16) for _ in range(count))


class Projected(Stranger, listed=False):
    """Four heads of width 4 over 16 features; what most of these modules start from.

    The truth is that of plain attention, with scores of its own (``true``), unless a module says
    otherwise.
    """

    def build(self) -> None:
        self.q, self.k, self.v, self.o = linears(4)

    def qkv(self, x):
        return split(self.q(x)), split(self.k(x)), split(self.v(x))

    def forward(self, x):
        return self.o(merge(self.attend(*self.qkv(x))))

    def attend(self, q, k, v):
        return look(q, k, v)

    def true(self, q, k):
        return scaled(q, k)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(self.true(q, k), kind), v, kind)

    def finish(self, weights, v, kind):
        return Known(self.o(merge(mixed(weights, v, kind))), (weights,))
