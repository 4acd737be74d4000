"""The softmax in numpy, against that of torch in float64."""

from __future__ import annotations

import numpy as np
import torch

from transformer_viz.core.numerics import softmax


def test_softmax_is_that_of_torch() -> None:
    scores = 30 * np.random.default_rng(0).standard_normal((2, 3, 7))
    scores[0, 1, 2:] = -np.inf
    scores[1, 2] = -np.inf  # nothing to look at: NaN in both
    expected = torch.from_numpy(scores).softmax(-1).numpy()
    np.testing.assert_allclose(softmax(scores), expected, rtol=1e-13, atol=0)
    assert softmax(scores)[0, 1, 2] == 0 and np.isnan(softmax(scores)[1, 2]).all()
