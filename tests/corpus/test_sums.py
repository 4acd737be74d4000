"""Sums and examples of a corpus: bit by bit those of tv.metrics, however it was cut (P35)."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.corpus.scan import Scanned, scan
from transformer_viz.metrics.corpus.selection import (
    BANDS,
    LONGEST,
    SHORTEST,
    TOP,
    TYPICAL,
    best,
    choose,
    draw_of,
)
from transformer_viz.metrics.corpus.totals import FINE, Totals, table, totals_of
from transformer_viz.metrics.head_measures.columns import (
    BINS,
    COLUMNS,
    PLACES,
    Sums,
    bin_of,
    edges,
)
from transformer_viz.metrics.head_measures.rows import GRID

SENTENCES, HEADS = 211, 3


def some_sums(seed: int = 0) -> Sums:
    """Sums such as real ones are: whole numbers, some sentences without a row."""
    generator = np.random.default_rng(seed)
    shape = (SENTENCES, HEADS, len(COLUMNS))
    rows = generator.integers(0, 7, shape)
    total = np.rint(generator.random(shape) * rows * GRID).astype(np.int64)
    squares = np.rint(generator.random(shape) * rows * GRID).astype(np.int64)
    return Sums(rows, total, squares, rows, total // 3, rows, total // 5)


def splits(seed: int) -> list[np.ndarray]:
    """All sentences in a random order, in a random number of parts."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(SENTENCES)
    return np.array_split(order, int(generator.integers(2, 20)))


def test_random_splits_merge_into_one_pass():
    """P35: sums, bins, the examples with ties, and the sample."""
    sums = some_sums()
    whole = totals_of(sums)
    generator = np.random.default_rng(42)
    scores = np.round(generator.uniform(-0.5, 1, (SENTENCES, HEADS, 2)), 1)  # many are equal
    scores[generator.random(scores.shape) < 0.2] = np.nan
    numbers = np.arange(1000, 1000 + SENTENCES)
    draws = np.array([draw_of(3, n) for n in numbers.tolist()])
    names = ("previous", "diagonality")
    chosen = [sorted(found) for found in choose(scores, numbers, draws, names)]
    for seed in range(7):
        merged, parts = Totals.empty(HEADS), [[] for _ in range(HEADS)]
        for some in splits(seed):
            cut = Sums(**{name: part[some] for name, part in vars(sums).items()})
            merged = merged.plus(totals_of(cut))
            found = choose(scores[some], numbers[some], draws[some], names)
            parts = [best(part + more) for part, more in zip(parts, found, strict=True)]
        assert parts == chosen, seed
        for field in fields(Totals):
            a, b = getattr(whole, field.name), getattr(merged, field.name)
            assert a.dtype == b.dtype == np.int64
            assert a.tobytes() == b.tobytes(), (seed, field.name)


def test_examples_and_sums_by_hand():
    """The witness sorts in plain Python."""
    scores = np.round(np.random.default_rng(1).random((50, 1, 1)), 1)
    draws = np.array([draw_of(0, n) for n in range(50)])
    found = choose(scores, np.arange(50), draws, ("self",))[0]
    by_hand = dict(enumerate(scores[:, 0, 0]))
    top = sorted(by_hand, key=lambda n: (-by_hand[n], n))[:TOP]
    assert [c.sentence for c in found if c.kind == "top"] == top
    for band in range(BANDS):
        there = [n for n in by_hand if min(BANDS - 1, int(by_hand[n] * BANDS)) == band]
        typical = sorted(there, key=lambda n: draws[n])[:TYPICAL]
        assert [c.sentence for c in found if c.kind == "typical" and c.band == band] == typical
    words = hashlib.blake2b(b"7:12", digest_size=8).digest()
    assert draw_of(7, 12) == int.from_bytes(words, "big") >> 1
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
    # m2 is the squared distance from the mean
    values = np.random.default_rng(2).integers(0, 2**30, 9) / GRID
    totals = Totals.empty(1)
    totals.n[0, 0], totals.sum[0, 0] = 9, values.sum() * GRID
    totals.squares[0, 0] = np.rint((values**2).sum() * GRID)
    assert totals.m2[0, 0] == pytest.approx(((values - values.mean()) ** 2).sum(), abs=1e-8)
    # bins reach from end to end
    means = np.zeros((3, len(COLUMNS)))
    means[0], means[1], means[2, PLACES["diagonality"].start] = 1.0, 0.5, -7.0
    found = bin_of(means)
    assert found[:, PLACES["previous"].start].tolist() == [BINS - 1, BINS // 2, 0]
    assert found[:, PLACES["diagonality"].start].tolist() == [BINS - 1, 192, 0]


def test_the_interval_is_that_of_the_bootstrap():
    """Within a tenth of its width, on enough sentences."""
    generator = np.random.default_rng(5)
    rows = generator.integers(1, 9, (4000, 1, len(COLUMNS)))
    share = np.clip(generator.normal(0.4, 0.2, rows.shape), 0, 1)
    total = np.rint(share * rows * GRID).astype(np.int64)
    told = table([("encoder", "self", 0, 0)], totals_of(Sums(rows, total, *[rows] * 5)))
    place = PLACES["previous"].start
    s, m = total[:, 0, place] / GRID, rows[:, 0, place]
    drawn = generator.integers(0, 4000, (2000, 4000))
    low, high = np.quantile(s[drawn].sum(1) / m[drawn].sum(1), (0.025, 0.975))
    width = high - low
    assert told["previous_low"][0] == pytest.approx(low, abs=width / 10)
    assert told["previous_high"][0] == pytest.approx(high, abs=width / 10)
    assert told["previous"][0] == s.sum() / m.sum()


FLOAT = 1e-6  # a batch adds in another order than one sentence does
PAIRS = [
    ("The cat sat on the mat.", "Die Katze saß auf der Matte."),
    ("A dog barks at the other dog, and the other dog barks.", "Ein Hund bellt den Hund an."),
    ("Hi.", "Hallo."),
    ("The dog sat on the mat.", "Der Hund saß auf der Matte."),
    ("I know that you know that I know.", "Ich weiß, dass du weißt, dass ich weiß."),
    ("The cow sat on the mat.", "Die Kuh saß auf der Matte."),
    ("Go!", "Geh!"),
]


@cache
def opened(name: str) -> Model:
    return tv.load(name, device="cpu")


def items(name: str) -> list[tuple[int, Any]]:
    return list(enumerate(PAIRS if name.startswith("en-de") else [pair[0] for pair in PAIRS]))


@cache
def scanned(name: str, view: str = "content") -> Scanned:
    return scan(opened(name), items(name), view=view, seed=0, with_weights=True)


def same_columns(found: pd.DataFrame, wanted: pd.DataFrame, columns: list[str]) -> None:
    apart = [
        column
        for column in columns
        if not np.allclose(
            *(one[column].to_numpy(float) for one in (found, wanted)),
            atol=FLOAT,
            rtol=0,
            equal_nan=True,
        )
    ]
    assert not apart, apart


@pytest.mark.shipped
def test_the_numbers_are_those_of_metrics():
    for name in ("en-de-small", "en-lm", "en-mlm"):
        for view in ("content", "raw"):
            found = scanned(name, view)
            told = table(list(found.heads), found.totals)
            wanted = tv.metrics(opened(name), [item for _, item in items(name)], view=view)
            assert list(told.columns) == list(wanted.columns)
            assert told.iloc[:, :4].equals(wanted.iloc[:, :4])
            inner = [c for c in wanted.columns[4:] if not c.endswith(("_low", "_high"))]
            same_columns(told, wanted, inner)
            assert tv.roles(told)["roles"].notna().all()


@pytest.mark.shipped
def test_sources_alone_are_decoded_as_trace_decodes_them():
    model, sources = opened("en-de-small"), [pair[0] for pair in PAIRS]
    found = scan(model, list(enumerate(sources)), view="content", seed=0, with_weights=True)
    told, wanted = table(list(found.heads), found.totals), tv.metrics(model, sources)
    names = ("entropy", "previous", "coverage", "copying")
    same_columns(told, wanted, [n + part for n in names for part in ("", "_rows", "_chance")])
    kept = {one.sentence: one.target for one in found.examples}
    assert kept[0] == tv.translate(model, sources[0], beam=1)[0].text


@pytest.mark.shipped
def test_examples_are_the_maps_of_trace_with_their_sentences_scores():
    model, found = opened("en-de-small"), scanned("en-de-small")
    traces = {n: tv.trace(model, *pair, check=False) for n, pair in enumerate(PAIRS)}
    alone = {n: tv.metrics(run) for n, run in traces.items()}
    seen, counted = set(), 0
    for one in found.examples:
        stack, block, layer, head = found.heads[one.head]
        name, run = "cross" if block == "cross" else stack, traces[one.sentence]
        weights = run.attention(name, layer=layer)[head]
        assert np.abs(one.weights / 255 - weights).max() <= 0.5 / 255 + FLOAT
        assert one.query == (run.source if name == "encoder" else run.target).pieces
        assert one.key == (run.target if name == "decoder" else run.source).pieces
        assert (one.text, one.target) == PAIRS[one.sentence]
        seen.add(one.sentence)
        for choice in one.chosen:
            if choice.measure not in ("null", "copying"):  # a trace alone does not give these
                expected = alone[one.sentence][choice.measure].iloc[one.head]
                assert choice.score == pytest.approx(expected, abs=FLOAT)
                counted += 1
    assert counted > 500
    lengths = {n: max(len(t.source), len(t.target or ())) for n, t in traces.items()}
    assert seen <= {n for n, length in lengths.items() if SHORTEST <= length <= LONGEST}
    assert 2 not in seen and 6 not in seen


@pytest.mark.shipped
def test_one_shard_twice_is_the_same_to_the_last_bit():
    first, before = scanned("en-de-small"), torch.get_num_threads()
    torch.set_num_threads(2)
    words = {"view": "content", "seed": 0, "with_weights": True}
    again = scan(opened("en-de-small"), items("en-de-small"), **words)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    for name, part in vars(first.totals).items():
        assert part.tobytes() == getattr(again.totals, name).tobytes(), name
    assert [one.chosen for one in first.examples] == [one.chosen for one in again.examples]


@pytest.mark.shipped
def test_copying_is_asked_of_some_sentences_and_long_ones_are_left_out():
    model, words = opened("en-de-small"), {"view": "content", "seed": 0}
    some = scan(model, items("en-de-small"), copying_every=3, **words)
    told = table(list(some.heads), some.totals)
    whole = table(list(scanned("en-de-small").heads), scanned("en-de-small").totals)
    assert 0 < told["copying_rows"].sum() < whole["copying_rows"].sum()
    assert told["entropy_rows"].equals(whole["entropy_rows"])
    assert (told["ov_copying_rows"] == 0).all()
    given = [(5, PAIRS[0]), (6, ("word " * 5000, "Wort")), (7, ("word", "Wort " * 5000))]
    found = scan(model, given, **words)
    assert found.sentences == 1
    assert [number for number, _ in found.refused] == [6, 7]
    assert all("tokens and this model reads at most" in why for _, why in found.refused)
