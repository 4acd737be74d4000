"""Sums merge without error: in parts, in another order, padded or alone."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest

from tests.support.head_arrays import drawn, maps
from transformer_viz.metrics.heads.maps import Maps, Side
from transformer_viz.metrics.heads.moments import Moments
from transformer_viz.metrics.heads.registry import METRICS, NAMES
from transformer_viz.metrics.heads.sentences import measured

IDS = [0, 3, 4, 5, 3, 6, 7, 4, 8, 9, 5, 11, 12]


def parts(name: str, sentences: int = 40) -> list[Moments]:
    metric = METRICS[NAMES.index(name)]
    found = []
    for seed in range(sentences):
        size = 5 + seed % 9
        weights = drawn(3, size, seed, causal=True)
        found.append(metric.measure(maps(weights, IDS[:size], [0], causal=True, view="content")))
    return found


@pytest.mark.parametrize("name", ["entropy", "distance", "previous", "positional", "induction"])
def test_seven_random_splits_are_one_pass_bit_by_bit(name: str) -> None:
    found = parts(name)
    whole = reduce(add, found)
    rng = np.random.default_rng(7)
    for _ in range(7):
        order = rng.permutation(len(found))
        cuts = np.sort(rng.choice(np.arange(1, len(found)), 6, replace=False))
        split = [reduce(add, (found[i] for i in part)) for part in np.split(order, cuts)]
        merged = reduce(add, split)
        for one, other in zip(vars(whole).values(), vars(merged).values(), strict=True):
            assert one.tobytes() == other.tobytes()


def test_the_mean_is_over_rows_and_not_over_sentences() -> None:
    found = parts("entropy", 9)
    assert reduce(add, found).mean == pytest.approx(
        np.sum([m.sum for m in found], 0) / np.sum([m.count for m in found], 0)
    )
    assert reduce(add, found).mean != pytest.approx(np.mean([m.mean for m in found], 0), abs=1e-5)


def padded(weights: np.ndarray, ids: list[int], before: int, after: int) -> Maps:
    """The same sentence in a batch: padding keys weigh nothing, padding rows hold anything."""
    size, whole = len(ids), before + len(ids) + after
    real = np.isin(np.arange(whole), np.arange(before, before + size))
    wide = np.zeros((len(weights), whole, whole), dtype=np.float32)
    wide[:, ~real] = 1 / whole
    wide[np.ix_(np.arange(len(weights)), real, real)] = weights
    visible = np.tril(np.ones((whole, whole), dtype=bool)) & real & real[:, None]
    special = ~real | (np.arange(whole) == before)
    known = np.full(whole, 99)
    known[real] = ids
    tokens = Side(special, np.zeros(whole, dtype=bool), known)
    return Maps(wide, visible, tokens, tokens, view="content")


@pytest.mark.parametrize(("before", "after"), [(0, 4), (4, 0), (2, 3)])
def test_padding_left_or_right_changes_nothing(before: int, after: int) -> None:
    weights = drawn(3, 13, seed=1, causal=True)
    alone = measured(maps(weights, IDS, [0], causal=True, view="content"))
    among = measured(padded(weights, IDS, before, after))
    for metric in METRICS:
        if metric.name == "copying":
            continue
        here, there = alone[metric.name], among[metric.name]
        for one, other in ((here.value, there.value), (here.chance, there.chance)):
            assert one.count.tolist() == other.count.tolist(), metric.name
            assert one.sum == pytest.approx(other.sum, abs=1e-6), metric.name
