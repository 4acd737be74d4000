"""Divergence and assignment against sums by hand, brute force, and their laws."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from tests.support.refusals import refuses
from transformer_viz.core.numerics import entropy_bits
from transformer_viz.metrics.comparison.assignment import assignment
from transformer_viz.metrics.comparison.divergence import jensen_shannon
from transformer_viz.metrics.comparison.pairing import Costs, paired


def drawn(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Distributions, a third of whose weights are 0."""
    values = generator.random(shape) * (generator.random(shape) > 1 / 3)
    values[..., 0] += 1e-3
    return values / values.sum(-1, keepdims=True)


def kullback_leibler(p: np.ndarray, q: np.ndarray) -> float:
    return sum(a * np.log2(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def test_the_divergence_is_the_mean_way_to_the_middle():
    generator = np.random.default_rng(0)
    p, q = drawn(generator, 5, 7), drawn(generator, 5, 7)
    wanted = [
        (kullback_leibler(a, (a + b) / 2) + kullback_leibler(b, (a + b) / 2)) / 2
        for a, b in zip(p, q, strict=True)
    ]
    assert jensen_shannon(p, q) == pytest.approx(wanted, abs=1e-12)
    assert jensen_shannon(q, p) == pytest.approx(wanted, abs=1e-12)
    # equal rows are at 0 and strangers at 1
    p = drawn(np.random.default_rng(1), 11, 13)
    assert (jensen_shannon(p, p) == 0).all()
    apart = jensen_shannon(np.array([0.25, 0.75, 0, 0]), np.array([0, 0, 0.5, 0.5]))
    assert apart == 1
    # by hand: H(.75, .25) - (H(1, 0) + H(.5, .5)) / 2
    half = jensen_shannon(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    assert half == pytest.approx(-0.75 * np.log2(0.75) + 0.25 * 2 - 0.5)
    assert entropy_bits(np.full(8, 1 / 8)) == 3
    # its root is a distance (Endres and Schindelin 2003): the triangle holds, so three
    # checkpoints can be laid out
    p, q, r = (drawn(np.random.default_rng(seed), 200, 5) for seed in (2, 3, 4))
    a, b, c = (np.sqrt(jensen_shannon(*pair)) for pair in ((p, q), (q, r), (p, r)))
    assert (c <= a + b + 1e-12).all()


def test_what_is_given_stays_as_it_is():
    """P13."""
    generator = np.random.default_rng(5)
    p, q, cost = drawn(generator, 3, 5), drawn(generator, 3, 5), generator.random((5, 7))
    before = [array.tobytes() for array in (p, q, cost)]
    for array in (p, q, cost):
        array.setflags(write=False)
    jensen_shannon(p, q)
    assignment(cost)
    assert [array.tobytes() for array in (p, q, cost)] == before


def test_the_assignment_is_the_cheapest_of_all():
    sizes = ((1, 1), (3, 3), (6, 6), (3, 6), (6, 3), (1, 5), (5, 1))
    for size, ties in product(sizes, (False, True)):
        generator = np.random.default_rng(sum(size))
        for _ in range(20):
            cost = generator.normal(size=size)
            cost = np.round(cost) if ties else cost
            found = assignment(cost)
            chosen = [(row, column) for row, column in enumerate(found) if column >= 0]
            assert len(chosen) == min(size) == len({column for _, column in chosen}), (size, ties)
            wide = cost if size[0] <= size[1] else cost.T
            least = min(
                sum(wide[row, column] for row, column in enumerate(order))
                for order in permutations(range(wide.shape[1]), wide.shape[0])
            )
            assert sum(cost[pair] for pair in chosen) == pytest.approx(least), (size, ties)
    # a permuted identity is found among many
    order = np.random.default_rng(7).permutation(144)
    cost = 1 - np.eye(144)[order]
    assert (assignment(cost) == order).all()
    assert (assignment(np.random.default_rng(8).random((144, 144)) + 100 * cost) == order).all()
    refuses("finite number", assignment, np.array([[0.0, np.nan]]))


def costs(table: list[list[float]], layers: int = 1) -> Costs:
    cost = np.array(table)
    places, others = (
        tuple((n * layers // count, n % max(1, count // layers)) for n in range(count))
        for count in cost.shape
    )
    return Costs("encoder", places, others, cost)


def test_margins_by_hand():
    table = paired(costs([[0.1, 0.5, 0.11], [0.4, 0.2, 0.3], [0.1, 0.9, 0.3]]))
    assert table["other_head"].tolist() == [2, 1, 0]
    assert table["divergence"].tolist() == [0.11, 0.2, 0.1]
    assert table["margin"].to_numpy() == pytest.approx([-0.01, 0.1, 0.2])
    assert table["ambiguous"].tolist() == [True, False, False]
    assert table["same"].tolist() == [False, True, False]
    # a head too many has no counterpart
    table = paired(costs([[0.5], [0.1], [np.nan]]))
    assert table["other_head"].isna().tolist() == [True, False, True]
    assert table["divergence"].isna().tolist() == [True, False, True]
    assert np.isnan(table["margin"][1])  # there is no next best
    assert not table["ambiguous"].any()
    # counterparts may be held to near layers
    near = costs([[0.9, 0.1], [0.1, 0.9]], layers=2)
    assert paired(near)["other_layer"].tolist() == [1, 0]
    assert paired(near, within=1)["other_layer"].tolist() == [1, 0]
    assert paired(near, within=0)["other_layer"].tolist() == [0, 1]
