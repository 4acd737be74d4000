"""Numbers of the labs against PyTorch and sums by hand: norms, distances, q·k, cosines."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.app.labs.experiments.long_range import LongRangeResult as Far
from transformer_viz.app.labs.experiments.long_range import answer, measured, near_and_far
from transformer_viz.app.labs.jobs import streams
from transformer_viz.core.numerics import softmax
from transformer_viz.inference import token_ids
from transformer_viz.metrics.attention.distance_profile import reach
from transformer_viz.metrics.attention.qk_steps import NoProduct
from transformer_viz.metrics.attention.score_variance import (
    head_spreads,
    jacobian_norms,
    random_scores,
    random_spread,
    softness,
)
from transformer_viz.metrics.attention.tied_query_key import lopsidedness, share_keys
from transformer_viz.metrics.residual.batch_norm import EPSILON, batch_normed, layer_normed
from transformer_viz.metrics.residual.similarity import alikeness

random = np.random.default_rng(11)


def test_norms_are_pytorchs_and_only_batch_norm_knows_the_neighbours():
    draw = np.random.default_rng(5)
    batch = [draw.standard_normal((rows, 11)) * 3 + 1 for rows in (5, 2, 7)]
    words = {"eps": EPSILON, "dtype": torch.float64}
    layer = torch.nn.LayerNorm(11, elementwise_affine=False, **words)
    assert np.allclose(layer_normed(batch[0]), layer(torch.tensor(batch[0])).numpy(), atol=1e-12)
    witness = torch.nn.BatchNorm1d(11, affine=False, **words).train()
    made = witness(torch.tensor(np.concatenate(batch))).numpy()
    beside = batch_normed(batch[0], batch)
    assert np.allclose(beside, made[:5], atol=1e-12)
    assert np.allclose(batch_normed(batch[2], batch), made[7:], atol=1e-12)
    alone = batch_normed(batch[0], batch[:1])
    assert np.abs(alone - beside).max() > 0.1
    assert np.allclose(alone.mean(axis=0), 0) and np.allclose(alone.std(axis=0), 1, atol=1e-4)
    refuses(r"widths \[11, 13\]", batch_normed, np.ones((2, 11)), [np.ones((2, 13))])
    refuses("got 0", batch_normed, np.ones((2, 11)), [])


def test_a_remembered_stream_is_no_view_of_a_whole_run(tiny_model, monkeypatch):
    monkeypatch.setattr(token_ids, "source_ids", lambda _, text: [5, 7, 11, 3][: len(text)])
    short, full = streams(tiny_model, ("ab", "abcd"), 1)
    assert (short.tokens, full.tokens) == (2, 4)
    for one in (short, full):
        assert one.rows.base is None and not one.rows.flags.writeable
    run = tv.trace(tiny_model, [5, 7, 11, 3], target=[0], keep=("hidden",), check=False)
    assert np.array_equal(full.rows, run.hidden("encoder")[1])


def test_links_of_each_distance_are_averaged_over_their_pairs(tiny_model):
    weights, seen = softmax(random.normal(size=(3, 7, 7))), np.ones((7, 7), bool)
    found = reach(weights, seen)
    assert found.steps.tolist() == list(range(7))
    for d in range(7):
        pairs = [(i, j) for i in range(7) for j in range(7) if abs(i - j) == d]
        assert found.pairs[d] == len(pairs)
        for head in range(3):
            mean = sum(weights[head, i, j] for i, j in pairs) / len(pairs)
            assert found.strength[head, d] == pytest.approx(mean, rel=1e-12), (d, head)
    assert np.allclose(found.uniform, 1 / 7)
    assert np.allclose(found.share.sum(axis=1), 1)
    refuses(
        r"one sentence.*\[2, 3, 5\] and \[3, 5\]", reach, np.ones((2, 3, 5)), np.ones((3, 5), bool)
    )
    refuses("no link to measure", reach, np.ones((2, 3, 3)), np.zeros((3, 3), bool))
    # those of a run are of all its heads
    trace = tv.trace(tiny_model, [5, 7, 11, 13, 17, 3], target=[2, 9, 10, 21])
    links, names = measured(trace, "decoder")
    assert names == ["L0H0", "L0H1", "L1H0", "L1H1"]
    below = [trace.attention("decoder")[1, 1, i + 1, i] for i in range(3)]
    assert links.strength[3, 1] == pytest.approx(np.mean(below))


def test_near_and_far_of_an_even_head_one_of_neighbours_and_its_mirror():
    seen = np.tril(np.ones((11, 11), bool))
    found = reach((seen / seen.sum(axis=1, keepdims=True))[None], seen)
    assert np.allclose(found.strength[0], found.uniform)
    # row i sees i + 1 words; distance 10 has one pair, in the last row; distance 9 two
    assert found.uniform[-1] == pytest.approx(1 / 11)
    assert found.uniform[-2] == pytest.approx((1 / 10 + 1 / 11) / 2)
    assert near_and_far(found) == pytest.approx((1.0, 1.0))
    assert answer(Far(found, 11, *near_and_far(found))) == 1
    apart = np.abs(np.arange(12)[:, None] - np.arange(12))
    for sign, right in ((-1.0, 0), (1.0, 2)):
        links = reach(softmax(sign * apart[None].astype(float)), np.ones((12, 12), bool))
        assert answer(Far(links, 12, *near_and_far(links))) == right, sign


def test_alikeness_is_the_mean_cosine_of_pairs():
    vectors = random.normal(size=(2, 5, 13))
    cosine = torch.nn.functional.cosine_similarity
    for stack in vectors:
        rows = torch.from_numpy(stack)
        pairs = [cosine(rows[i], rows[j], dim=0) for i in range(5) for j in range(5) if i != j]
        assert float(alikeness(stack)) == pytest.approx(float(sum(pairs)) / 20)
    assert alikeness(vectors).shape == (2,)
    assert alikeness(np.ones((3, 4))) == pytest.approx(1)
    assert alikeness(np.eye(6)) == pytest.approx(0)
    assert alikeness(np.array([[1.0, 0], [0, 0]])) == 0
    refuses("two words", alikeness, np.ones((1, 4)))


def test_shared_scores_are_symmetric_and_own_ones_are_pytorchs():
    q, k = random.normal(size=(2, 3, 5, 7))
    seen = np.tril(np.ones((5, 5), bool))
    found = share_keys(q, k, 7**-0.5, seen)
    assert np.allclose(found.shared, found.shared.swapaxes(1, 2))
    assert np.allclose(found.lopsided[:, 1], 0)
    query, key = torch.from_numpy(q)[None], torch.from_numpy(k)[None]
    values = torch.eye(5, dtype=torch.float64).expand(1, 3, 5, 5)  # so that the weights come out
    wanted = torch.nn.functional.scaled_dot_product_attention(query, key, values, is_causal=True)
    assert np.allclose(found.own_weights, wanted[0].numpy())
    assert found.itself[2, 1] == pytest.approx(np.trace(found.shared_weights[2]) / 5)
    refuses("different words", share_keys, q, k[:, :4], 1.0, seen)
    scores = random.normal(size=(101, 101))
    assert lopsidedness(scores + scores.T) == pytest.approx(0)
    assert lopsidedness(scores - scores.T) == pytest.approx(1)
    assert lopsidedness(scores) == pytest.approx(0.5, abs=0.05)
    # [[1, 2], [0, 1]]: the antisymmetric part has 1 and -1, so 2 of the squares' sum of 6
    assert lopsidedness(np.array([[1.0, 2.0], [0.0, 1.0]])) == pytest.approx(2 / 6)


@pytest.mark.slow
def test_the_variance_of_random_products_is_their_width():
    """Var(q·k) = d_k. Of n products, the estimate strays by about d_k sqrt((2 + 6 / d_k) / n):
    the fourth moment of a sum of d_k products of unit normals is 3 d_k² + 6 d_k."""
    for d_k in (4, 16, 64, 256):
        scores = random_scores(d_k, keys=17, rows=4000)
        stray = d_k * np.sqrt((2 + 6 / d_k) / 4000)  # products of one row share their query
        assert abs(scores.var() - d_k) < 5 * stray, d_k
        assert abs(scores.mean()) < 5 * np.sqrt(d_k / 4000), d_k
    # scaled ones do not know their width
    narrow, wide = (random_spread(d_k, keys=17) for d_k in (4, 256))
    assert wide.scaled.entropy == pytest.approx(narrow.scaled.entropy, rel=0.05)
    assert wide.plain.entropy < narrow.plain.entropy / 4
    assert wide.plain.gradient < narrow.plain.gradient / 2


def test_the_jacobian_of_a_softmax_is_that_of_autograd():
    scores = np.random.default_rng(3).standard_normal((5, 7)) * 3
    for row, norm in zip(scores, jacobian_norms(softmax(scores)), strict=True):
        whole = torch.autograd.functional.jacobian(
            lambda x: torch.softmax(x, dim=-1), torch.tensor(row)
        )
        assert norm == pytest.approx(float(whole.norm()), rel=1e-12)
    found = softness(np.array([[1000.0, 0.0, 0.0, -np.inf]]))
    assert (found.entropy, found.largest, found.gradient) == (0, 1, 0)
    found = softness(np.array([[1.5, 1.5, 1.5, 1.5, -np.inf]]))
    assert found.entropy == pytest.approx(2) and found.largest == pytest.approx(0.25)
    # diag(1/4) - 1/16: on the diagonal 3/16 four times, beside it -1/16 twelve times
    assert found.gradient == pytest.approx(np.sqrt(4 * (3 / 16) ** 2 + 12 / 16**2))


@pytest.mark.slow
def test_the_heads_of_a_model_are_measured_over_what_they_may_see(tiny_model):
    """Compare with q·k of the trace cell by cell, and with the weights that the model used."""
    run = tv.trace(tiny_model, [5, 9, 14, 3], target=[2, 7, 11], keep=("scores", "qkv"))
    found = {(h.block, h.layer, h.head): h for h in head_spreads(run)}
    assert len(found) == 2 * (3 + 2 + 2)
    for (block, layer, head), one in found.items():
        kept = run.block(block, layer)
        cells = [
            float(np.dot(kept.q[head, row].astype(float), kept.k[head, column].astype(float)))
            for row in range(kept.weights.shape[1])
            for column in range(kept.weights.shape[2])
            if block != "decoder" or column <= row
        ]
        plain = softmax(kept.scores[head].astype(float) / one.scale)
        for value, wanted, near in (
            (one.spread.variance, np.var(cells), 1e-9),
            (one.scale, 11**-0.5, 1e-5),
            (one.spread.scaled.largest, float(kept.weights[head].max(axis=-1).mean()), 1e-4),
            (one.spread.plain.largest, plain.max(axis=-1).mean(), 1e-4),
        ):
            assert value == pytest.approx(wanted, rel=near), (block, layer, head, near)
    for score in ("additive", "location"):
        words = {"target": [2, 7], "keep": ("scores", "qkv")}
        other = tv.trace(make_model(score=score), [5, 9, 3], **words)
        refuses("no product of a query and a key", head_spreads, other, error=NoProduct)
