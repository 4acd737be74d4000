"""Rollout, flow, relevance and the order of a deletion, on arrays made by hand or at random."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.support.refusals import refuses
from transformer_viz.metrics.attribution.deletion import by_words, ordered, random_orders
from transformer_viz.metrics.attribution.flow import MOST_TOKENS, flow, largest
from transformer_viz.metrics.attribution.gradient import Raised, normed, relevance
from transformer_viz.metrics.attribution.rollout import Step, halved, rolled

SOURCE, TARGET, HEADS = 5, 3, 2


def weights(seed: int, rows: int, columns: int, causal: bool = False) -> np.ndarray:
    """Return random rows that sum to 1, ``[head, query, key]``."""
    scores = np.random.default_rng(seed).normal(size=(HEADS, rows, columns)) * 2
    if causal:
        scores = np.where(np.tri(rows, columns, dtype=bool), scores, -np.inf)
    found = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(found / found.sum(-1, keepdims=True))


def encoder(seed: int = 0, layers: int = 3) -> list[Step]:
    return [halved("encoder", "self", weights(seed + n, SOURCE, SOURCE)) for n in range(layers)]


def decoder(seed: int = 0) -> list[Step]:
    return [halved("decoder", "self", weights(seed + n, 4, 4, causal=True)) for n in range(3)]


def both(seed: int = 0) -> list[Step]:
    steps = encoder(seed)
    for n in range(2):
        steps.append(halved("decoder", "self", weights(seed + 10 + n, TARGET, TARGET, causal=True)))
        steps.append(halved("decoder", "cross", weights(seed + 20 + n, TARGET, SOURCE)))
    return steps


def test_rows_of_a_rollout_sum_to_one_and_no_flow_is_below_it():
    """P27, P28: a rollout is one possible flow."""
    for kind, seed in product((encoder, decoder, both), (0, 100)):
        steps, case = kind(seed), (kind.__name__, seed)
        shares = rolled(steps)
        total = shares.source.sum(-1) + (0 if shares.target is None else shares.target.sum(-1))
        assert total == pytest.approx(np.ones(len(total)), abs=1e-12), case
        own = shares.source if shares.target is None else shares.target
        assert kind is encoder or not np.triu(own, 1).any(), case  # nothing of later words
        for row in range(len(shares.source)):
            found = flow(steps, row)
            assert (found.source[0] >= shares.source[row] - 1e-5).all(), (case, row)
            if shares.target is not None:
                assert (found.target[0] >= shares.target[row] - 1e-5).all(), (case, row)
    # one layer flows as it rolls; and the cap on tokens
    steps = encoder(layers=1)
    for row in range(SOURCE):
        assert flow(steps, row).source[0] == pytest.approx(rolled(steps).source[row], abs=1e-5)
    long = [halved("encoder", "self", np.full((1, 65, 65), 1 / 65))]
    refuses(f"up to {MOST_TOKENS} tokens and this input has 65", flow, long, 0)


def test_a_rollout_is_the_product_of_its_layers():
    """Against the product by hand; one layer is that layer, identity stays, the order counts."""
    steps = encoder()
    halves = [(step.keys + np.eye(SOURCE) / 2) for step in steps]
    assert rolled(steps).source == pytest.approx(halves[2] @ halves[1] @ halves[0], abs=1e-12)
    assert rolled(steps[:1]).source == pytest.approx(halves[0])
    assert not np.allclose(rolled(steps[::-1]).source, rolled(steps).source)
    still = [halved("encoder", "self", np.stack([np.eye(SOURCE)] * HEADS))] * 4
    assert rolled(still).source == pytest.approx(np.eye(SOURCE))
    # two stacks: ``[D | S]`` of facts section 6, R1, written out
    steps = both()
    encoded = rolled(steps[:3]).source
    d, s = np.eye(TARGET), np.zeros((TARGET, SOURCE))
    for own, cross in (steps[3:5], steps[5:7]):
        t = own.keys + np.eye(TARGET) / 2
        d, s = t @ d, t @ s
        d, s = d / 2, s / 2 + cross.keys @ encoded
    found = rolled(steps)
    assert found.source == pytest.approx(s) and found.target == pytest.approx(d)
    # layers that cannot be multiplied say so
    uneven = weights(0, 3, 5)
    said = "3 rows and 5 keys, so its layers cannot be multiplied"
    refuses(said, halved, "encoder", "self", uneven)
    refuses("nothing to multiply", rolled, [])
    steps = [*encoder(layers=1), halved("encoder", "self", weights(0, 4, 4))]
    refuses("cannot be multiplied", rolled, steps)


def smallest_cut(pipes: np.ndarray, start: int, end: int) -> float:
    """Return the cheapest of all ways to part the nodes: the witness of a largest flow."""
    rest = [n for n in range(len(pipes)) if n not in (start, end)]
    costs = []
    for sides in product((False, True), repeat=len(rest)):
        near = np.zeros(len(pipes), bool)
        near[[start, *(n for n, side in zip(rest, sides, strict=True) if side)]] = True
        costs.append(pipes[near][:, ~near].sum())
    return float(min(costs))


def test_a_largest_flow_is_the_smallest_cut():
    for seed in range(5):
        draws = (np.random.default_rng(one).random((7, 7)) for one in (seed, seed + 50))
        pipes = next(draws) * (next(draws) < 0.5)
        np.fill_diagonal(pipes, 0)
        assert largest(pipes, 0, 6) == pytest.approx(smallest_cut(pipes, 0, 6), abs=1e-6), seed


def raised(stack: str, block: str, seed: int, rows: int, columns: int, causal: bool) -> Raised:
    slopes = np.random.default_rng(seed + 7).normal(size=(HEADS, rows, columns))
    return Raised(stack, block, weights(seed, rows, columns, causal), slopes)


def test_relevance_by_hand():
    """P30, P31: ``R += mean relu(gradient x weight) R``; rows of no gradient stay themselves.

    Rows that got nothing give no NaN, nor does a diagonal of 1 - 1e-7 in float32.
    """
    steps = [raised("encoder", "self", n, SOURCE, SOURCE, False) for n in range(2)]
    first, second = (np.maximum(s.weights * s.gradients, 0).mean(0) for s in steps)
    wanted = np.eye(SOURCE) + first
    wanted = wanted + second @ wanted
    assert relevance(steps).source == pytest.approx(wanted)
    still = [Raised("encoder", "self", s.weights, s.gradients * 0) for s in steps]
    assert (relevance(still).source == np.eye(SOURCE)).all()
    own = np.eye(3, dtype=np.float32) * np.float32(1 - 1e-7)
    own[1, 0] = 0.5
    found = normed(own)
    assert np.isfinite(found).all()
    assert found == pytest.approx(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1]]), abs=1e-6)
    steps = [
        Raised("encoder", "self", weights(0, SOURCE, SOURCE), np.zeros((HEADS, SOURCE, SOURCE))),
        raised("decoder", "self", 1, TARGET, TARGET, True),
        raised("decoder", "cross", 2, TARGET, SOURCE, False),
    ]
    source = relevance(steps).source
    assert np.isfinite(source).all() and (source >= 0).all() and source.any()
    steps = [raised("decoder", "self", n, 4, 4, True) for n in range(3)]
    assert not np.triu(relevance(steps).source, 1).any()  # none is of later words


def test_orders_of_a_deletion():
    scores = by_words(np.array([0.5, 0.25, 0.5, np.nan]), [0, 1, 1, 2])
    assert scores == {0: 0.5, 1: 0.75, 2: -np.inf}
    assert ordered(scores) == [1, 0, 2]
    assert ordered({4: 1.0, 2: 1.0}) == [2, 4]
    draws = random_orders([3, 5, 9], 4, seed=1)
    assert all(sorted(order) == [3, 5, 9] for order in draws)
    assert draws == random_orders([3, 5, 9], 4, seed=1) != random_orders([3, 5, 9], 4, seed=2)
