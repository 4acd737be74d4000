"""Pieces that modules and their truths share."""

from __future__ import annotations

import math

import torch
from torch import nn


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
