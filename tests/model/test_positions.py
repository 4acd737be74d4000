"""Positions: the paper's table worked out by hand, and rotations as complex numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from transformer_viz.model.positional_encoding import (
    LearnedPositions,
    Rotary,
    SinusoidalPositions,
    make_positions,
    sinusoidal_table,
)

CELLS = [(0, 0), (0, 1), (1, 0), (1, 1), (6, 4), (6, 5), (42, 20), (42, 21)]


@pytest.mark.parametrize(("position", "dimension"), CELLS)
def test_the_table_is_the_paper_s(position, dimension):
    angle = position / 10000 ** (2 * (dimension // 2) / 22)
    expected = math.sin(angle) if dimension % 2 == 0 else math.cos(angle)
    table = sinusoidal_table(43, 22)
    assert table.shape == (43, 22)
    assert float(table[position, dimension]) == pytest.approx(expected, abs=1e-6)
    column = dimension // 2 + (11 if dimension % 2 else 0)
    halves = sinusoidal_table(43, 22, halves=True)
    assert float(halves[position, column]) == pytest.approx(expected, abs=1e-6)


def test_an_odd_width_ends_with_a_sine():
    table = sinusoidal_table(5, 7)
    assert table.shape == (5, 7)
    assert float(table[3, 6]) == pytest.approx(math.sin(3 / 10000 ** (6 / 7)), abs=1e-6)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_added_positions_do_not_depend_on_the_words(tiny_config, kind):
    module = make_positions(replace(tiny_config, positions=kind))
    assert isinstance(module, LearnedPositions if kind == "learned" else SinusoidalPositions)
    x = torch.randn(2, 5, 22)
    added = module(x) - x
    torch.testing.assert_close(added[0], added[1], atol=1e-6, rtol=0)
    table = module.table.weight if kind == "learned" else module.table
    torch.testing.assert_close(added[0], table[:5], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["rotary", "none"])
def test_nothing_is_added_for(tiny_config, kind):
    assert make_positions(replace(tiny_config, positions=kind, d_k=14)) is None


def test_rotary_turns_complex_numbers(tiny_config):
    config = replace(tiny_config, positions="rotary", d_k=14)
    x = torch.randn(2, 3, 5, 14)
    numbers = x[..., :7].numpy().astype(np.float64) + 1j * x[..., 7:].numpy()
    for position in range(5):
        for pair in range(7):
            numbers[:, :, position, pair] *= np.exp(1j * position / 10000 ** (2 * pair / 14))
    expected = np.concatenate((numbers.real, numbers.imag), axis=-1)
    np.testing.assert_allclose(Rotary(config)(x), expected, atol=1e-6)


def test_rotary_scores_know_only_the_distance(tiny_config):
    rotary = Rotary(replace(tiny_config, positions="rotary", d_k=14))
    q, k = torch.randn(14).expand(1, 1, 11, 14), torch.randn(14).expand(1, 1, 11, 14)
    scores = (rotary(q) @ rotary(k).transpose(-2, -1))[0, 0]
    for distance in range(-10, 11):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert scores[0].std() > 0.01


@pytest.mark.parametrize(
    ("kind", "moves"),
    [
        ("none", False),
        ("sinusoidal", True),
        ("sinusoidal_halves", True),
        ("learned", True),
        ("rotary", True),
    ],
)
def test_without_positions_a_sentence_is_a_bag_of_words(build_module, kind, moves):
    module = build_module(positions=kind, d_k=14)
    ids, order = torch.tensor([[5, 9, 31, 7]]), [2, 0, 3, 1]
    mask = module.padding_mask(ids)
    first, second = module.encode(ids, mask), module.encode(ids[:, order], mask)
    assert torch.allclose(first[:, order], second, atol=1e-5) != moves
