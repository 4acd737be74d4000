"""Bootstrap, rank intervals, Student's t and Holm's correction, against values known elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz.metrics.statistics import bootstrap
from transformer_viz.metrics.statistics.significance import bootstrap_p, holm, two_sided


def test_the_interval_holds_the_true_effect():
    """P26: 95 % intervals hold the truth in 90 to 98 of 100 corpora; sentences differ in length."""
    generator, held = np.random.default_rng(11), 0
    for corpus in range(100):
        counts = generator.integers(3, 30, size=80)
        # a sentence has its own mean, so that its tokens are no independent witnesses
        means = 0.05 + generator.normal(0, 0.1, size=80)
        sums = means * counts + generator.normal(0, 0.3, size=80) * np.sqrt(counts)
        weights = bootstrap.reweightings(80, seed=corpus)
        draws = bootstrap.pooled_means(sums[:, None], counts, weights)
        low, high = bootstrap.percentile_interval(draws)
        held += bool(low[0] <= 0.05 <= high[0])
    assert 90 <= held <= 98


def test_draws_take_as_many_sentences_as_there_are_and_means_are_of_all_rows():
    weights = bootstrap.reweightings(17, draws=53, seed=3)
    assert weights.shape == (53, 17)
    assert (weights.sum(axis=1) == 17).all()
    assert (weights == bootstrap.reweightings(17, draws=53, seed=3)).all()
    assert (weights != bootstrap.reweightings(17, draws=53, seed=4)).any()
    sums, counts = np.array([[3.0], [10.0]]), np.array([1, 4])
    assert bootstrap.pooled_means(sums, counts) == pytest.approx([13 / 5])
    once = bootstrap.pooled_means(sums, counts, np.array([[2, 0], [1, 1]]))
    assert once[:, 0] == pytest.approx([3.0, 13 / 5])
    counts = np.full(40, 5)
    clear = np.arange(7)[None] + np.zeros((40, 1))
    assert bootstrap.split_half(clear, counts) == pytest.approx(1.0)
    noise = np.random.default_rng(0).normal(size=(40, 101))
    assert abs(bootstrap.split_half(noise, counts)) < 0.5
    assert np.isnan(bootstrap.split_half(clear[:1], counts[:1]))


def test_ranks_and_the_places_that_equals_share():
    assert bootstrap.ranks(np.array([0.1, 5.0, -2.0])).tolist() == [2, 1, 3]
    assert bootstrap.ranks(np.array([1.0, 1.0])).tolist() == [1, 2]
    best, worst = bootstrap.shared_places(np.array([[5.0, 3.0, 3.0]]))
    assert best.tolist() == [[1, 2, 2]]
    assert worst.tolist() == [[1, 3, 3]]
    low, high = bootstrap.rank_interval(np.array([[4.0, 0.0, 0.0]] * 9))
    assert low.tolist() == [1, 2, 2]
    assert high.tolist() == [1, 3, 3]
    # Spearman gives equals their mean rank: 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5)
    found = bootstrap.spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 2, 3, 4]))
    assert found == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert np.isnan(bootstrap.spearman(np.zeros(3), np.arange(3)))


def test_student_and_holm():
    for t, df, p in (  # of the printed tables: the two-sided 5 % and 1 % points
        (12.7062, 1, 0.05),
        (4.30265, 2, 0.05),
        (2.57058, 5, 0.05),
        (3.16927, 10, 0.01),
        (1.97196, 199, 0.05),
    ):
        assert two_sided(np.array([t]), df) == pytest.approx([p], abs=2e-6), df
        ends = two_sided(np.array([0.0, np.inf]), df)
        assert ends == pytest.approx([1.0, 0.0], abs=1e-12), df
    # Holm's steps by hand: .01 x 4, .02 x 3, .03 x 2, .04 x 1, never smaller than before
    assert holm(np.array([0.03, 0.01, 0.04, 0.02])) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm(np.array([0.5, 0.9])) == pytest.approx([1.0, 1.0])
    assert holm(np.array([0.2])) == pytest.approx([0.2])
    # no effect in any sentence is no finding
    draws = np.stack([np.zeros(100), np.full(100, 2.0)], axis=1)
    assert bootstrap_p(np.array([0.0, 2.0]), draws, 30).tolist() == [1.0, 0.0]
    assert bootstrap_p(np.array([2.0]), draws[:, 1:], 1).tolist() == [1.0]
