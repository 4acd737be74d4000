"""Sums and examples of a corpus: bit by bit those of tv.metrics, however it was cut (P35)."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.corpus.scan import Scanned, scan
from transformer_viz.metrics.corpus.columns import BINS, COLUMNS, PLACES, Sums, bin_of, edges
from transformer_viz.metrics.corpus.heads_last import Facts, orders
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
from transformer_viz.metrics.corpus.stacked import Stacked, measure
from transformer_viz.metrics.corpus.totals import FINE, Totals, table, totals_of
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.rows import GRID, VIEWS, HeadRows, Tally

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


SIDE, WIDE = 5, 7  # sentences side by side, width of values
DRAWS = np.array([draw_of(0, n) for n in range(SIDE)], np.uint64)
#: Sums in another order may part on the last bit, which moves a row's rounding to 2^-30 by one.
UNITS = 2


def drawn(kind: str, view: str, queries: int, keys: int, seed: int = 3) -> Stacked:
    """Random heads: the end is a special token, and words come twice."""
    generator = np.random.default_rng(seed)
    allowed = np.ones((queries, keys), bool)
    if kind == "causal":
        allowed = np.tri(queries, dtype=bool)
    if kind == "padded":
        allowed[:, -2:] = False
    scores = generator.normal(0, 3, (SIDE, HEADS, queries, keys))
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    special = [np.zeros(n, bool) for n in (queries, keys)]
    for side in special if kind != "cross" else special[1:]:
        side[-1 if kind != "causal" else 0] = True
    if kind == "padded":
        special[0][-3] = special[1][-3] = True
    values = generator.normal(0, 1, (SIDE * HEADS, keys, WIDE)).astype(np.float32)
    ids = None if kind == "cross" else generator.integers(1, 5, (SIDE, keys))
    return Stacked(weights, allowed, *special, ids, kind == "cross", view, lambda: values)


def rows_of(stack: Stacked, number: int, **changes: object) -> HeadRows:
    words = {
        "key_ids": None if stack.ids is None else stack.ids[number],
        "cross": stack.cross,
        "view": stack.view,
        "values": stack.values().reshape(SIDE, HEADS, -1, WIDE)[number],
        "weights": stack.weights[number],
    } | changes
    sides = (stack.allowed, stack.query_special, stack.key_special)
    return HeadRows(words.pop("weights"), *sides, **words)


def same(rows: np.ndarray, total: np.ndarray, found: Tally, case: object) -> None:
    shape = rows.shape
    wanted = np.broadcast_to(found.rows.reshape(shape[0], -1), shape)
    assert np.array_equal(rows, wanted), case
    apart = np.abs(total - np.rint(found.total.reshape(shape[0], -1) * GRID))
    assert apart.max() <= UNITS, case


def test_own_chance_and_null_are_those_of_the_measures():
    sizes = [("whole", 11, 11), ("whole", 3, 3), ("causal", 13, 13), ("padded", 11, 11)]
    for view, size in product(VIEWS, [*sizes, ("cross", 7, 11)]):
        stack = drawn(size[0], view, *size[1:])
        found = measure(stack, DRAWS)
        by_rows, by_ids = (orders(stack.facts, DRAWS, n) for n in (0, 1))
        for number in range(SIDE):
            rows = rows_of(stack, number)
            turned = rows.weights[:, by_rows[number]]
            free = {"weights": turned, "key_ids": None, "values": None, "kept": rows.heeded}
            moved = rows_of(stack, number, **free)
            for one in MEASURES:
                if one.name in ("copying", "ov_copying"):
                    continue
                at, case = (number, slice(None), PLACES[one.name]), (view, size, one.name)
                own = one.of(rows)
                same(found.rows[at], found.total[at], own, case)
                squares = Tally(own.squares, own.rows, own.total)
                same(found.rows[at], found.squares[at], squares, case)
                same(found.chance_rows[at], found.chance[at], one.chance(rows), case)
                if one.shuffled == "rows":
                    same(found.null_rows[at], found.null[at], one.of(moved), case)
                if one.shuffled == "ids" and rows.key_ids is not None:
                    ids = rows.key_ids[by_ids[number]]
                    other = rows_of(stack, number, key_ids=ids, values=None, cross=False)
                    same(found.null_rows[at], found.null[at], one.of(other), case)
        asked = {name for name, place in PLACES.items() if found.rows[..., place].any()}
        assert len(asked) >= (8 if size[2] > 3 else 5), (view, size)


def test_rows_without_numbers_and_heads_side_by_side():
    stack = drawn("whole", "content", 11, 11)
    stack.weights[1, 2, 4, 3] = np.nan
    found, whole = measure(stack, DRAWS), measure(drawn("whole", "content", 11, 11), DRAWS)
    for one in MEASURES:
        if one.name in ("entropy", "confidence", "sink"):
            place = PLACES[one.name]
            lost = whole.rows[..., place] - found.rows[..., place]
            assert lost.sum() == 1 and lost[1, 2] == 1
            own = one.of(rows_of(stack, 1))
            same(found.rows[1, :, place], found.total[1, :, place], own, one.name)
    stack = drawn("causal", "content", 13, 13)
    together = measure(stack, DRAWS)
    values = stack.values().reshape(SIDE, HEADS, -1, WIDE)
    for number in range(SIDE):
        at = slice(number, number + 1)
        sides = (stack.weights[at], stack.allowed, stack.query_special, stack.key_special)
        own = lambda at=at: values[at].reshape(HEADS, -1, WIDE)  # noqa: E731
        alone = Stacked(*sides, stack.ids[at], False, "content", own)
        for name, part in vars(measure(alone, DRAWS[at])).items():
            assert part.tobytes() == getattr(together, name)[at].tobytes(), name


def test_the_null_puts_words_alone_in_every_order_alike():
    """Of 3,000 draws each word stands at each place about as often; others stay."""
    facts: Facts = drawn("whole", "content", 5, 5).facts  # four words and an end
    many = np.array([draw_of(7, n) for n in range(3000)], np.uint64)
    found = orders(facts, many, 0)
    assert (np.sort(found, 1) == np.arange(5)).all() and (found[:, 4] == 4).all()
    kinds, counts = np.unique(found[:, :4], axis=0, return_counts=True)
    assert len(kinds) == 24
    assert ((counts - 125) ** 2 / 125).sum() < 49.7  # chi-squared, 23 degrees, p = .001
    assert (orders(facts, many, 1) != found).any(1).mean() > 0.9
    assert np.array_equal(orders(facts, many[5:6], 0), found[5:6])


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
