"""The shift property against rotations by hand."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz.metrics.positions.shift_errors import shift_errors, similarity_by_distance

RATES = np.array([1.0, 0.31, 0.07, 0.011])  # radians a position, one a pair
PLACES = np.arange(23)


def _sines() -> np.ndarray:
    """sin and cos of each rate, side by side: ``[position, dimension]``."""
    angles = PLACES[:, None] * RATES
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(PLACES), -1)


def test_k_further_is_a_turn_by_k_times_the_rate() -> None:
    """The rows k further are the rows turned by k times the rate: by hand, then as measured."""
    table = _sines()
    for by in (1, 5, 11):
        turned = table[:-by].copy()
        for pair, rate in enumerate(RATES):
            s, c = table[:-by, 2 * pair], table[:-by, 2 * pair + 1]
            turned[:, 2 * pair] = s * np.cos(by * rate) + c * np.sin(by * rate)
            turned[:, 2 * pair + 1] = c * np.cos(by * rate) - s * np.sin(by * rate)
        assert np.allclose(turned, table[by:], atol=1e-12)
    assert shift_errors(table).shape == (11,) and shift_errors(table).max() < 1e-9


def test_a_random_table_has_no_such_turn() -> None:
    table = np.random.default_rng(2).standard_normal((23, 8))
    assert shift_errors(table).min() > 0.2


def test_how_alike_places_of_sines_are_depends_on_their_distance_alone() -> None:
    """The mean over pairs of cos(rate x distance)."""
    wanted = [np.cos(RATES * by).mean() for by in range(12)]
    assert similarity_by_distance(_sines()) == pytest.approx(wanted, abs=1e-12)
