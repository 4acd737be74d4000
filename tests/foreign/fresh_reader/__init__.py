"""Attentions by an author who read only the public pages; each knows its own truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

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

    note = "self"
    readings: tuple[tuple[str, str], ...] = ()  # other results of an edit that would be right too
    batched = True
    gradients = False

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.build()
        self.eval()

    def example(self) -> tuple:
        """``[batch 2, token 6, 16]`` unless a module takes something else."""
        return (torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(7)),)

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


def split(x: torch.Tensor, heads: int) -> torch.Tensor:
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
