"""Softmax and its logarithm in numpy, against torch in float64."""

from __future__ import annotations

import numpy as np
import torch

from transformer_viz.core import numerics
from transformer_viz.core.numerics import log_softmax, log_softmax_at, rank_at, softmax


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
