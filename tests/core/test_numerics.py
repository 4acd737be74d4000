"""Softmax and its logarithm in numpy, against torch in float64."""

from __future__ import annotations

import numpy as np
import torch

from transformer_viz.core import numerics
from transformer_viz.core.numerics import (
    entropy_bits,
    log_softmax,
    log_softmax_at,
    rank_at,
    softmax,
    visible_cells,
    weight_bits,
)


def test_softmax_its_logarithm_and_ranks_equal_torch(monkeypatch):
    scores = 30 * np.random.default_rng(0).standard_normal((2, 3, 7))
    scores[0, 1, 2:] = -np.inf
    scores[1, 2] = -np.inf  # nothing to look at: NaN in both
    expected = torch.from_numpy(scores).softmax(-1).numpy()
    np.testing.assert_allclose(softmax(scores), expected, rtol=1e-13, atol=0)
    assert softmax(scores)[0, 1, 2] == 0 and np.isnan(softmax(scores)[1, 2]).all()
    scores = 30 * np.random.default_rng(1).standard_normal((3, 5, 11)).astype(np.float32)
    scores[0, 2, 4:] = -np.inf
    expected = torch.from_numpy(scores).double().log_softmax(-1).numpy()
    np.testing.assert_allclose(log_softmax(scores), expected, rtol=1e-13, atol=1e-13)
    assert log_softmax(scores).dtype == np.float64 and log_softmax(scores)[0, 2, 4] == -np.inf
    scores = 30 * np.random.default_rng(2).standard_normal((7, 11)).astype(np.float32)
    scores[3, 2:5] = scores[3, 0]
    ids = [0, 3, 10, 2, 5, 1, 9]
    for block in (1, 11, 25, 10_000):
        monkeypatch.setattr(numerics, "BLOCK", block)
        expected = torch.from_numpy(scores).double().log_softmax(-1)[range(7), ids].numpy()
        np.testing.assert_allclose(log_softmax_at(scores, ids), expected, rtol=1e-13)
        above = [sum(x > row[n] for x in row) + 1 for row, n in zip(scores, ids, strict=True)]
        assert rank_at(scores, ids).tolist() == above, block


def test_bits_of_weights_equal_in_numpy_and_torch():
    weights = np.array([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0], [1.5, -0.5, 0.0, 0.0]])
    for kind in (np.float32, np.float64):
        given = weights.astype(kind)
        found, again = weight_bits(given), weight_bits(torch.from_numpy(given)).numpy()
        assert np.array_equal(given, weights) and found.dtype == kind
        assert np.array_equal(found, again, equal_nan=True)
        assert entropy_bits(given[:2]).tolist() == [1.5, 0.0]
        assert np.isnan(entropy_bits(given)[2])  # a weight below 0 has no logarithm


def test_visible_cells_are_those_without_a_mask():
    weights = np.array([[0.6, 0.4, 0.0], [0.0, -0.2, 1.2], [np.nan] * 3])
    assert visible_cells(weights).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
    scores = np.array(
        [[2.0, -9.0, -1e4, 0.0], [2.0, -5e3, -np.inf, 0.0], [-1e9] * 4]
    )  # a sink last
    for divided, wanted in (
        (False, [[1, 1, 0], [1, 0, 0], [0, 0, 0]]),
        (True, [[1, 1, 1], [1, 1, 0], [0, 0, 0]]),
    ):
        assert visible_cells(weights, scores, divided).tolist() == wanted
        heads = visible_cells(weights[None], scores[None], np.array([[[divided]]]))
        assert heads.tolist() == [wanted]
    assert visible_cells(torch.tensor(weights), torch.tensor(scores)).dtype == torch.bool
