"""Sums and examples of a corpus do not depend on how it was cut: P35, with witnesses by hand."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np
import pytest

from transformer_viz.metrics.corpus.selection import (
    BANDS,
    TOP,
    TYPICAL,
    Choice,
    best,
    choose,
    draw_of,
)
from transformer_viz.metrics.corpus.totals import FINE, Totals, table, totals_of
from transformer_viz.metrics.head_measures.columns import BINS, COLUMNS, PLACES, Sums, bin_of, edges
from transformer_viz.metrics.head_measures.rows import GRID

SENTENCES, HEADS = 211, 3
MEASURES = ("previous", "diagonality")


def some_sums(seed: int = 0) -> Sums:
    """Sums such as real ones are: whole numbers, some sentences without a row."""
    generator = np.random.default_rng(seed)
    shape = (SENTENCES, HEADS, len(COLUMNS))
    rows = generator.integers(0, 7, shape)
    total = np.rint(generator.random(shape) * rows * GRID).astype(np.int64)
    squares = np.rint(generator.random(shape) * rows * GRID).astype(np.int64)
    return Sums(rows, total, squares, rows, total // 3, rows, total // 5)


def cut(sums: Sums, numbers: np.ndarray) -> Sums:
    return Sums(**{name: part[numbers] for name, part in vars(sums).items()})


def splits(seed: int) -> list[np.ndarray]:
    """All sentences in a random order, in a random number of parts."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(SENTENCES)
    return np.array_split(order, int(generator.integers(2, 20)))


@pytest.mark.parametrize("seed", range(7))
def test_a_merge_of_random_splits_is_one_pass(seed: int) -> None:
    """P35: sums and bins."""
    sums = some_sums()
    whole = totals_of(sums)
    parts = Totals.empty(HEADS)
    for numbers in splits(seed):
        parts = parts.plus(totals_of(cut(sums, numbers)))
    for field in fields(Totals):
        a, b = getattr(whole, field.name), getattr(parts, field.name)
        assert a.dtype == b.dtype == np.int64
        assert a.tobytes() == b.tobytes(), field.name


@pytest.mark.parametrize("seed", range(7))
def test_examples_of_random_splits_are_those_of_one_pass(seed: int) -> None:
    """P35: top-k with ties, and the sample."""
    generator = np.random.default_rng(42)
    scores = np.round(generator.uniform(-0.5, 1, (SENTENCES, HEADS, 2)), 1)  # many are equal
    scores[generator.random(scores.shape) < 0.2] = np.nan
    numbers = np.arange(1000, 1000 + SENTENCES)
    draws = np.array([draw_of(3, n) for n in numbers.tolist()])
    whole = [sorted(found) for found in choose(scores, numbers, draws, MEASURES)]
    parts: list[list[Choice]] = [[] for _ in range(HEADS)]
    for some in splits(seed):
        for head, found in enumerate(choose(scores[some], numbers[some], draws[some], MEASURES)):
            parts[head] = best(parts[head] + found)
    assert parts == whole


def test_examples_by_hand() -> None:
    """The witness sorts in plain Python."""
    generator = np.random.default_rng(1)
    scores = np.round(generator.random((50, 1, 1)), 1)
    numbers = np.arange(50)
    draws = np.array([draw_of(0, n) for n in range(50)])
    found = choose(scores, numbers, draws, ("self",))[0]
    by_hand = {}
    for n in range(50):
        by_hand[n] = scores[n, 0, 0]
    top = sorted(by_hand, key=lambda n: (-by_hand[n], n))[:TOP]
    assert [c.sentence for c in found if c.kind == "top"] == top
    for band in range(BANDS):
        there = [n for n in by_hand if min(BANDS - 1, int(by_hand[n] * BANDS)) == band]
        typical = sorted(there, key=lambda n: draws[n])[:TYPICAL]
        assert [c.sentence for c in found if c.kind == "typical" and c.band == band] == typical
    words = hashlib.blake2b(b"7:12", digest_size=8).digest()
    assert draw_of(7, 12) == int.from_bytes(words, "big") >> 1


def test_sums_by_hand() -> None:
    sums = some_sums(1)
    totals = totals_of(sums)
    s = sums.total[:, 1, 4] / GRID
    m = sums.rows[:, 1, 4].astype(float)
    assert totals.n[1, 4] == m.sum() and totals.sum[1, 4] / GRID == s.sum()
    assert totals.sentences[1, 4] == (m > 0).sum()
    assert totals.ss[1, 4] / FINE == pytest.approx((s * s).sum(), abs=SENTENCES / FINE)
    assert totals.sm[1, 4] / FINE == pytest.approx((s * m).sum(), abs=SENTENCES / FINE)
    counted, _ = np.histogram(s[m > 0] / m[m > 0], bins=edges("self"))
    assert totals.bins[1, 4].tolist() == counted.tolist()
    assert totals.bins.sum(-1).tolist() == totals.sentences.tolist()


def test_m2_is_the_squared_distance_from_the_mean() -> None:
    values = np.random.default_rng(2).integers(0, 2**30, 9) / GRID
    totals = Totals.empty(1)
    totals.n[0, 0] = 9
    totals.sum[0, 0] = values.sum() * GRID
    totals.squares[0, 0] = np.rint((values**2).sum() * GRID)
    assert totals.m2[0, 0] == pytest.approx(((values - values.mean()) ** 2).sum(), abs=1e-8)


def test_bins_reach_from_end_to_end() -> None:
    place = PLACES["previous"].start
    signed = PLACES["diagonality"].start
    means = np.zeros((3, len(COLUMNS)))
    means[0], means[1] = 1.0, 0.5
    means[2, signed] = -7.0
    found = bin_of(means)
    assert found[:, place].tolist() == [BINS - 1, BINS // 2, 0]
    assert found[:, signed].tolist() == [BINS - 1, 192, 0]


def test_the_interval_is_that_of_the_bootstrap() -> None:
    """Within a tenth of its width, on enough sentences."""
    generator = np.random.default_rng(5)
    rows = generator.integers(1, 9, (4000, 1, len(COLUMNS)))
    share = np.clip(generator.normal(0.4, 0.2, rows.shape), 0, 1)
    total = np.rint(share * rows * GRID).astype(np.int64)
    told = table([("encoder", "self", 0, 0)], totals_of(Sums(rows, total, *[rows] * 5)))
    place = PLACES["previous"].start
    s, m = total[:, 0, place] / GRID, rows[:, 0, place]
    drawn = generator.integers(0, 4000, (2000, 4000))
    means = s[drawn].sum(1) / m[drawn].sum(1)
    low, high = np.quantile(means, (0.025, 0.975))
    width = high - low
    assert told["previous_low"][0] == pytest.approx(low, abs=width / 10)
    assert told["previous_high"][0] == pytest.approx(high, abs=width / 10)
    assert told["previous"][0] == s.sum() / m.sum()
