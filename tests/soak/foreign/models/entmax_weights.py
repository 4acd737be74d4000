"""Attention by hand with a sparse map of entmax for its softmax; the weights are its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..verdict import Configuration

HEADS, WIDTH = 4, 32
MAPS = ("sparsemax", "entmax15", "sparsemax_bisect", "entmax_bisect")


class Layer(nn.Module):
    """Self-attention with weights by a function of entmax, kept in ``maps``."""

    def __init__(self, kind: str):
        super().__init__()
        import entmax

        self.weigh = getattr(entmax, kind)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.maps = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, HEADS, -1)).unbind(2)
        q, k, v = (part.transpose(1, 2) for part in parts)
        self.maps = self.weigh(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        return x + self.out((self.maps @ v).transpose(1, 2).flatten(2))


def model(kind: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Two layers and two lines of nine vectors."""
    return nn.Sequential(Layer(kind), Layer(kind)), (torch.randn(2, 9, WIDTH),)


def own(module: nn.Module, x: Tensor) -> list[Tensor]:
    """The weights of both layers."""
    module(x)
    return [layer.maps for layer in module.modules() if isinstance(layer, Layer)]


def configurations() -> list[Configuration]:
    """All of them."""
    return [Configuration(kind, lambda k=kind: model(k), 2, own) for kind in MAPS]  # type: ignore[misc]
