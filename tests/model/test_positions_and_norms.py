"""Positions against the paper's table and complex rotations; norms against numpy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from transformer_viz.model.normalization import make_norm
from transformer_viz.model.positional_encoding import (
    LearnedPositions,
    Rotary,
    SinusoidalPositions,
    make_positions,
    sinusoidal_table,
)


def test_the_sinusoidal_table_is_the_papers():
    table, halves = sinusoidal_table(43, 22), sinusoidal_table(43, 22, halves=True)
    assert table.shape == (43, 22)
    for position, dimension in ((0, 0), (0, 1), (1, 0), (1, 1), (6, 4), (6, 5), (42, 20), (42, 21)):
        angle = position / 10000 ** (2 * (dimension // 2) / 22)
        expected = math.sin(angle) if dimension % 2 == 0 else math.cos(angle)
        where = position, dimension
        assert float(table[where]) == pytest.approx(expected, abs=1e-6), where
        column = dimension // 2 + (11 if dimension % 2 else 0)
        assert float(halves[position, column]) == pytest.approx(expected, abs=1e-6), where
    odd = sinusoidal_table(5, 7)  # ends with a sine
    assert odd.shape == (5, 7)
    assert float(odd[3, 6]) == pytest.approx(math.sin(3 / 10000 ** (6 / 7)), abs=1e-6)


def test_added_positions_do_not_depend_on_the_words(tiny_config):
    for kind in ("sinusoidal", "sinusoidal_halves", "learned"):
        module = make_positions(replace(tiny_config, positions=kind))
        assert isinstance(module, LearnedPositions if kind == "learned" else SinusoidalPositions)
        x = torch.randn(2, 5, 22)
        added = module(x) - x
        torch.testing.assert_close(added[0], added[1], atol=1e-6, rtol=0)
        table = module.table.weight if kind == "learned" else module.table
        torch.testing.assert_close(added[0], table[:5], atol=1e-6, rtol=0)
    for kind in ("rotary", "none"):
        assert make_positions(replace(tiny_config, positions=kind, d_k=14)) is None


def test_rotary_turns_complex_numbers_and_scores_know_only_the_distance(tiny_config):
    rotary = Rotary(replace(tiny_config, positions="rotary", d_k=14))
    x = torch.randn(2, 3, 5, 14)
    numbers = x[..., :7].numpy().astype(np.float64) + 1j * x[..., 7:].numpy()
    for position, pair in np.ndindex(5, 7):
        numbers[:, :, position, pair] *= np.exp(1j * position / 10000 ** (2 * pair / 14))
    expected = np.concatenate((numbers.real, numbers.imag), axis=-1)
    np.testing.assert_allclose(rotary(x), expected, atol=1e-6)
    q, k = torch.randn(14).expand(1, 1, 11, 14), torch.randn(14).expand(1, 1, 11, 14)
    scores = (rotary(q) @ rotary(k).transpose(-2, -1))[0, 0]
    for distance in range(-10, 11):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert scores[0].std() > 0.01


def test_without_positions_a_sentence_is_a_bag_of_words(build_module):
    for kind in ("none", "sinusoidal", "sinusoidal_halves", "learned", "rotary"):
        module = build_module(positions=kind, d_k=14)
        ids, order = torch.tensor([[5, 9, 31, 7]]), [2, 0, 3, 1]
        mask = module.padding_mask(ids)
        first, second = module.encode(ids, mask), module.encode(ids[:, order], mask)
        same = torch.allclose(first[:, order], second, atol=1e-5)
        assert same == (kind == "none"), kind


def normed(kind, x, gain, bias, eps):
    """Return the norm of x by its formula, in numpy."""
    if kind == "rms":
        return gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    mean = x.mean(-1, keepdims=True)
    if kind == "annotated":
        deviation = np.sqrt(((x - mean) ** 2).sum(-1, keepdims=True) / (x.shape[-1] - 1))
        return gain * (x - mean) / (deviation + eps) + bias
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + eps) + bias


def test_a_norm_equals_its_formula(tiny_config):
    for kind in ("layer", "annotated", "rms"):
        for eps in (1e-6, 0.3):
            norm = make_norm(replace(tiny_config, norm_kind=kind, norm_eps=eps)).double()
            torch.manual_seed(6)
            for parameter in norm.parameters():
                torch.nn.init.normal_(parameter)
            x = 3 + torch.randn(2, 5, 22, dtype=torch.float64)
            part = {name: p.detach().numpy() for name, p in norm.named_parameters()}
            expected = normed(kind, x.numpy(), part["weight"], part.get("bias", 0), eps)
            np.testing.assert_allclose(norm(x).detach(), expected, atol=1e-12, err_msg=kind)
            assert ("bias" in part) == (kind != "rms")
