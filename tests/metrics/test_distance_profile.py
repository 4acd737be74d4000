"""Links by distance and shared queries and keys: each number against a sum by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer_viz.app.labs.experiments.long_range import LongRangeResult as Far
from transformer_viz.app.labs.experiments.long_range import answer, measured, near_and_far
from transformer_viz.metrics.attention.distance_profile import reach
from transformer_viz.metrics.attention.tied_query_key import lopsidedness, share_keys
from transformer_viz.metrics.residual.similarity import alikeness

random = np.random.default_rng(11)


def softmax(scores: np.ndarray) -> np.ndarray:
    return torch.softmax(torch.from_numpy(scores), -1).numpy()


def test_links_of_each_distance_are_averaged_over_their_pairs() -> None:
    weights, seen = softmax(random.normal(size=(3, 7, 7))), np.ones((7, 7), bool)
    found = reach(weights, seen)
    assert found.steps.tolist() == list(range(7))
    for d in range(7):
        pairs = [(i, j) for i in range(7) for j in range(7) if abs(i - j) == d]
        assert found.pairs[d] == len(pairs)
        for head in range(3):
            mean = sum(weights[head, i, j] for i, j in pairs) / len(pairs)
            assert found.strength[head, d] == pytest.approx(mean, rel=1e-12)
    assert np.allclose(found.uniform, 1 / 7)
    assert np.allclose(found.share.sum(axis=1), 1)


def test_a_head_that_looks_at_all_alike_is_as_strong_as_the_uniform_line() -> None:
    seen = np.tril(np.ones((11, 11), bool))
    weights = (seen / seen.sum(axis=1, keepdims=True))[None]
    found = reach(weights, seen)
    assert np.allclose(found.strength[0], found.uniform)
    # row i sees i + 1 words; distance 10 has one pair, in the last row; distance 9 two
    assert found.uniform[-1] == pytest.approx(1 / 11)
    assert found.uniform[-2] == pytest.approx((1 / 10 + 1 / 11) / 2)
    assert near_and_far(found) == pytest.approx((1.0, 1.0))
    assert answer(Far(found, 11, *near_and_far(found))) == 1


def test_a_head_of_neighbours_is_near_and_its_mirror_is_far() -> None:
    n = 12
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    for sign, right in ((-1.0, 0), (1.0, 2)):
        links = reach(softmax(sign * apart[None].astype(float)), np.ones((n, n), bool))
        assert answer(Far(links, n, *near_and_far(links))) == right


def test_cells_of_two_sentences_have_no_distance() -> None:
    with pytest.raises(ValueError, match=r"one sentence.*\[2, 3, 5\] and \[3, 5\]"):
        reach(np.ones((2, 3, 5)), np.ones((3, 5), bool))
    with pytest.raises(ValueError, match="no link to measure"):
        reach(np.ones((2, 3, 3)), np.zeros((3, 3), bool))


def test_links_of_a_run_are_those_of_all_its_heads(tiny_model) -> None:
    import transformer_viz as tv

    trace = tv.trace(tiny_model, [5, 7, 11, 13, 17, 3], target=[2, 9, 10, 21])
    links, names = measured(trace, "decoder")
    assert names == ["L0H0", "L0H1", "L1H0", "L1H1"]
    weights = trace.attention("decoder")
    assert links.strength[3, 1] == pytest.approx(
        np.mean([weights[1, 1, i + 1, i] for i in range(3)])
    )


def test_alikeness_is_the_mean_cosine_of_pairs() -> None:
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
    with pytest.raises(ValueError, match="two words"):
        alikeness(np.ones((1, 4)))


def test_shared_scores_are_symmetric_and_own_ones_are_pytorchs() -> None:
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
    with pytest.raises(ValueError, match="different words"):
        share_keys(q, k[:, :4], 1.0, seen)


def test_lopsidedness_is_0_and_1_at_its_ends_and_a_half_for_noise() -> None:
    scores = random.normal(size=(101, 101))
    assert lopsidedness(scores + scores.T) == pytest.approx(0)
    assert lopsidedness(scores - scores.T) == pytest.approx(1)
    assert lopsidedness(scores) == pytest.approx(0.5, abs=0.05)
    # [[1, 2], [0, 1]]: the antisymmetric part has 1 and -1, so 2 of the squares' sum of 6
    assert lopsidedness(np.array([[1.0, 2.0], [0.0, 1.0]])) == pytest.approx(2 / 6)
