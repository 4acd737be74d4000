"""The three norms, each against its formula in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from transformer_viz.model.normalization import make_norm


def by_hand(kind, x, gain, bias, eps):
    if kind == "rms":
        return gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    mean = x.mean(-1, keepdims=True)
    if kind == "annotated":
        deviation = np.sqrt(((x - mean) ** 2).sum(-1, keepdims=True) / (x.shape[-1] - 1))
        return gain * (x - mean) / (deviation + eps) + bias
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + eps) + bias


@pytest.mark.parametrize("kind", ["layer", "annotated", "rms"])
@pytest.mark.parametrize("eps", [1e-6, 0.3])
def test_a_norm_equals_its_formula(tiny_config, kind, eps):
    norm = make_norm(replace(tiny_config, norm_kind=kind, norm_eps=eps)).double()
    torch.manual_seed(6)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    x = 3 + torch.randn(2, 5, 22, dtype=torch.float64)
    part = {name: p.detach().numpy() for name, p in norm.named_parameters()}
    expected = by_hand(kind, x.numpy(), part["weight"], part.get("bias", 0), eps)
    np.testing.assert_allclose(norm(x).detach(), expected, atol=1e-12)
    assert ("bias" in part) == (kind != "rms")
