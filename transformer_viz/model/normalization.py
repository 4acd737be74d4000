"""Normalization layers of a Transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import ModelConfig


class AnnotatedNorm(nn.Module):
    """Layer norm as in The Annotated Transformer.

    ``gain * (x - mean) / (std + eps) + bias`` with the unbiased (n - 1) standard deviation and eps
    added to it, outside the root.
    """

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.weight * centred / (x.std(-1, keepdim=True) + self.eps) + self.bias


def make_norm(config: ModelConfig) -> nn.Module:
    """Return the norm of ``config.norm_kind``.

    Kinds are layer (Ba et al. 2016), annotated, or rms (Zhang 2019).
    """
    if config.norm_kind == "annotated":
        return AnnotatedNorm(config.d_model, config.norm_eps)
    if config.norm_kind == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_eps)
    return nn.LayerNorm(config.d_model, eps=config.norm_eps)
