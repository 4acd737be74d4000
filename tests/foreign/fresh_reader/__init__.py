"""Attentions by an author who read only the public pages; each knows its own truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from .parts import law, linears, look, merge, mixed, scaled, split

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
