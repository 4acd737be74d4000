"""Products of q and k, and what a softmax makes of them, against autograd and sums by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.numerics import softmax
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.attention.qk_steps import NoProduct
from transformer_viz.metrics.attention.score_variance import (
    head_spreads,
    jacobian_norms,
    random_scores,
    random_spread,
    softness,
)


@pytest.mark.parametrize("d_k", [4, 16, 64, 256])
def test_the_variance_of_random_products_is_their_width(d_k: int) -> None:
    """Var(q·k) = d_k. Of n products, the estimate strays by about d_k sqrt((2 + 6 / d_k) / n):
    the fourth moment of a sum of d_k products of unit normals is 3 d_k² + 6 d_k."""
    scores = random_scores(d_k, keys=17, rows=4000)
    stray = d_k * np.sqrt((2 + 6 / d_k) / 4000)  # products of one row share their query
    assert abs(scores.var() - d_k) < 5 * stray
    assert abs(scores.mean()) < 5 * np.sqrt(d_k / 4000)


def test_the_jacobian_of_a_softmax_is_that_of_autograd() -> None:
    scores = np.random.default_rng(3).standard_normal((5, 7)) * 3
    for row, norm in zip(scores, jacobian_norms(softmax(scores)), strict=True):
        whole = torch.autograd.functional.jacobian(
            lambda x: torch.softmax(x, dim=-1), torch.tensor(row)
        )
        assert isinstance(whole, torch.Tensor)
        assert norm == pytest.approx(float(whole.norm()), rel=1e-12)


def test_a_row_on_one_key_has_no_gradient_and_no_entropy() -> None:
    found = softness(np.array([[1000.0, 0.0, 0.0, -np.inf]]))
    assert (found.entropy, found.largest, found.gradient) == (0, 1, 0)


def test_an_even_row_over_four_keys_has_two_bits() -> None:
    found = softness(np.array([[1.5, 1.5, 1.5, 1.5, -np.inf]]))
    assert found.entropy == pytest.approx(2) and found.largest == pytest.approx(0.25)
    # diag(1/4) - 1/16: on the diagonal 3/16 four times, beside it -1/16 twelve times
    assert found.gradient == pytest.approx(np.sqrt(4 * (3 / 16) ** 2 + 12 / 16**2))


def test_scaled_scores_do_not_know_their_width() -> None:
    narrow, wide = (random_spread(d_k, keys=17) for d_k in (4, 256))
    assert wide.scaled.entropy == pytest.approx(narrow.scaled.entropy, rel=0.05)
    assert wide.plain.entropy < narrow.plain.entropy / 4
    assert wide.plain.gradient < narrow.plain.gradient / 2


def test_the_heads_of_a_model_are_measured_over_what_they_may_see(tiny_model: Model) -> None:
    """Against q·k taken from the trace cell by cell, and the weights that the model used."""
    run = trace(tiny_model, [5, 9, 14, 3], target=[2, 7, 11], keep=("scores", "qkv"))
    found = {(h.block, h.layer, h.head): h for h in head_spreads(run)}
    assert len(found) == 2 * (3 + 2 + 2)
    for (block, layer, head), one in found.items():
        kept = run.block(block, layer)
        assert kept.q is not None and kept.k is not None
        cells = [
            float(np.dot(kept.q[head, row].astype(float), kept.k[head, column].astype(float)))
            for row in range(kept.weights.shape[1])
            for column in range(kept.weights.shape[2])
            if block != "decoder" or column <= row
        ]
        assert one.spread.variance == pytest.approx(np.var(cells), rel=1e-9)
        assert one.scale == pytest.approx(11**-0.5, rel=1e-5)
        assert one.spread.scaled.largest == pytest.approx(
            float(kept.weights[head].max(axis=-1).mean()), rel=1e-4
        )
        plain = softmax(kept.scores[head].astype(float) / one.scale)  # type: ignore[index]
        assert one.spread.plain.largest == pytest.approx(plain.max(axis=-1).mean(), rel=1e-4)


@pytest.mark.parametrize("score", ["additive", "location"])
def test_scores_that_are_no_product_say_so(build_model: Callable[..., Model], score: str) -> None:
    run = trace(build_model(score=score), [5, 9, 3], target=[2, 7], keep=("scores", "qkv"))
    with pytest.raises(NoProduct, match="no product of a query and a key"):
        head_spreads(run)
