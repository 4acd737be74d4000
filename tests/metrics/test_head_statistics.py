"""Metrics: sums done by hand, and the laws that hold for any weights."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.head_formulas import FORMULAS
from tests.support.refusals import refuses
from tests.views.conftest import make_trace
from transformer_viz.core.head_metrics import HEAD_METRICS
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Produced, Tokens
from transformer_viz.metrics import (
    Axis,
    axis,
    describe_row,
    head_statistics,
    merge_words,
    output_changes,
    produced_axis,
    statistic_change,
    strongest_links,
    without_special,
)

HEADS, QUERIES, KEYS = 2, 5, 7


def some_weights() -> np.ndarray:
    """Return random rows that sum to 1, ``[head, query, key]`` float32."""
    raw = np.random.default_rng(1).random((HEADS, QUERIES, KEYS))
    return (raw / raw.sum(-1, keepdims=True)).astype(np.float32)


def test_statistics_by_hand():
    row = head_statistics(np.array([[[0.5, 0.5, 0], [0.25, 0.25, 0.5]]], dtype=np.float32)).iloc[0]
    assert row["head"] == 0
    assert row["entropy"] == pytest.approx((1.0 + 1.5) / 2)  # 1 bit; 2 * 0.25 * 2 + 0.5 * 1 bits
    assert row["distance"] == pytest.approx((0.5 * 1 + 0.25 * 1 + 0.5 * 1) / 2)
    assert row["max"] == 0.5
    assert row["sink"] == pytest.approx((0.5 + 0.25) / 2)
    assert row["row_sum_error"] == 0.0
    itself = head_statistics(np.eye(KEYS)[None]).iloc[0]
    assert (itself["entropy"], itself["distance"], itself["max"]) == (0, 0, 1)
    assert itself["sink"] == pytest.approx(1 / KEYS)  # only query 0 looks at key 0
    row = head_statistics(np.array([[[1 / 3] * 3, [0.0] * 3]])).iloc[0]  # a silenced row
    assert row["entropy"] == pytest.approx(math.log2(3) / 2)
    assert row["row_sum_error"] == 1
    for shape in ((3, 4), (2, 3, 4, 5), (2, 0, 3), (0, 2, 3)):
        said = r"weights \[head, query, key\].*got shape"
        refuses(said, head_statistics, np.zeros(shape))


def test_a_metric_gives_one_finite_number_a_head_and_has_its_texts():
    columns = [metric.name for metric in HEAD_METRICS]
    assert columns == list(FORMULAS) and {"entropy", "row_sum_error"} < set(columns)
    weights, before = some_weights(), some_weights()
    table, swapped = head_statistics(weights), head_statistics(weights[::-1])
    assert list(table.columns) == ["head", *columns]
    assert np.array_equal(weights, before)
    for metric in HEAD_METRICS:
        name, values = metric.name, table[metric.name].to_numpy()
        assert values.shape == (HEADS,) and np.isfinite(values).all(), name
        expected = FORMULAS[name](weights)
        np.testing.assert_allclose(values, expected, rtol=1e-14, atol=1e-14, err_msg=name)
        assert np.array_equal(swapped[name].to_numpy()[::-1], values), "heads see each other"
        assert bool(metric.title) == bool(metric.ranked), name
        assert name.isidentifier() and metric.combined in ("mean", "max"), name
        assert metric.unit in metric.heading, "the table says the unit"
        for text in (metric.heard, metric.below_map):
            assert not text or ("{number" in text and metric.unit in text), name


@given(st.integers(1, 60), st.integers(1, 9))
def test_a_uniform_row_over_n_keys_has_entropy_log2_n(keys, queries):
    statistics = head_statistics(np.full((1, queries, keys), 1 / keys))
    assert statistics["entropy"][0] == pytest.approx(math.log2(keys))
    assert statistics["row_sum_error"][0] == pytest.approx(0, abs=1e-12)


def test_strongest_links_and_a_row_in_a_sentence():
    row = np.array([0.1, 0.6, 0.0, 0.3])
    labels = ("The", "animal", "it", "was")
    assert strongest_links(row, labels) == [("animal", 0.6), ("was", 0.3)]
    assert strongest_links(row, labels, 9) == [("animal", 0.6), ("was", 0.3), ("The", 0.1)]
    assert strongest_links(np.full(4, 0.25), labels, 1) == [("The", 0.25)], "equals: the earlier"
    refuses("4 weights needs 4 labels; got 2", strongest_links, np.zeros(4), ("a", "b"))
    said = describe_row(np.array([0.62, 0.21, 0.17]), "es", labels[1:])
    assert said == "“es” looks most at “animal” 0.62, then “it” 0.21."
    assert "looks at nothing" in describe_row(np.zeros(3), "es", labels[1:])


def a_side(words: tuple[int, ...], special: tuple[bool, ...] | None = None) -> Axis:
    labels = tuple(f"p{i}" for i in range(len(words)))
    return Axis(labels, words, special or (False,) * len(words))


def test_pieces_are_merged_to_words():
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    merged = merge_words(weights, a_side((0, 0)), a_side((0, 0, 1)))
    # columns: 0.1 + 0.2 = 0.3 and 0.3 + 0.3 = 0.6; rows: (0.3 + 0.6) / 2 and (0.7 + 0.4) / 2
    assert merged.weights == pytest.approx(np.array([[0.45, 0.55]]))
    assert merged.queries.labels == ("p0p1",)
    assert merged.keys.labels == ("p0p1", "p2")
    assert merged.note == "Pieces are merged to words: columns summed, rows averaged."
    weights = some_weights()  # row sums stay in every head
    merged = merge_words(weights, a_side((0, 0, 1, 2, 2)), a_side((0, 1, 1, 1, 2, 3, 3)))
    assert merged.weights.shape == (HEADS, 3, 4)
    assert merged.weights.dtype == np.float32
    assert merged.weights.sum(-1) == pytest.approx(np.ones((HEADS, 3)), abs=1e-6)
    # single pieces change nothing and say nothing
    merged = merge_words(weights, a_side(tuple(range(5))), a_side(tuple(range(7))))
    assert np.array_equal(merged.weights, weights)
    assert merged.note == ""
    # words are spelled without the marks of labels
    labels = ("the", "str", "eet", "the (2)", "🙂 1/4", "🙂 2/4", "🙂 3/4", "🙂 4/4", ".", ". (2)")
    side = Axis(labels, (0, 1, 1, 2, 3, 3, 3, 3, 4, 4), (False,) * 10)
    merged = merge_words(np.eye(10), side, side)
    assert merged.keys.labels == ("the", "street", "the (2)", "🙂", "..")


def test_special_tokens_go_and_rows_are_divided_by_what_is_left():
    weights = np.array([[0.5, 0.2, 0.3], [1.0, 0.0, 0.0], [0.2, 0.4, 0.4]])
    keys = a_side((0, 1, 2), (True, False, False))
    shown = without_special(weights, a_side((0, 1, 2), (False, False, True)), keys)
    assert shown.weights == pytest.approx(np.array([[0.4, 0.6], [0.0, 0.0]]))
    assert shown.keys.labels == ("p1", "p2")
    assert shown.queries.labels == ("p0", "p1")
    assert shown.note == (
        "Special tokens are hidden; each row is divided by what is left of it. "
        "1 row looked at special tokens only: zero."
    )
    # rows stay as they were where no column goes
    weights = np.array([[0.25, 0.25], [0.5, 0.5]])  # the first row was edited to half its sum
    shown = without_special(weights, a_side((0, 1), (False, True)), a_side((0, 1)))
    assert np.array_equal(shown.weights, [[0.25, 0.25]])
    assert shown.note == "Special tokens are hidden."
    assert without_special(weights, a_side((0, 1)), a_side((0, 1))).note == ""
    for regroup in (merge_words, without_special):
        sides = a_side((0, 1)), a_side((0, 1, 2))
        refuses("name 2 queries and 3 keys", regroup, np.zeros((1, 3, 2)), *sides)


def produced(pieces: str, probability: list[float], rank: list[int]) -> Produced:
    names = tuple(pieces.split())
    ids = tuple(sum(map(ord, name)) for name in names)
    return Produced(ids, names, names, np.array(probability, np.float32), np.array(rank))


def test_rows_of_a_decoder_are_named_after_what_they_produce():
    names, labels = ("<s>", "▁Ti", "er", "."), ("<s>", "Ti", "er", ".")
    target = Tokens((2, 11, 12, 13), names, labels, (0, 1, 1, 2), (True, *[False] * 3))
    said = (*names[1:], "</s>"), (*labels[1:], "</s>")
    side = produced_axis(Produced((11, 12, 13, 3), *said, np.ones(4), np.ones(4)), target)
    assert side.words == (1, 1, 2, 3)
    assert side.special == (False, False, False, True)
    assert axis(target).labels == target.labels
    # words that were not read stand alone
    read = Tokens((2, 4), ("<s>", "Die"), ("<s>", "Die"), (0, 1), (True, False))
    assert produced_axis(produced("Das es", [1, 1], [1, 1]), read).words == (0, 1)


def a_trace(made: Produced | None, *entropies: float) -> Trace:
    heads = pd.DataFrame({"stack": "encoder", "block": "self", "layer": [0, 0, 1, 1]})
    heads = heads.assign(head=[0, 1, 0, 1], entropy=entropies or 0.0)
    return replace(make_trace(), produced=made, heads=heads)


def test_entropy_before_and_after():
    before, after = a_trace(None, 1.0, 2.0, 3.0, 5.0), a_trace(None, 1.5, 2.0, 4.0, 6.0)
    assert statistic_change(before, after, Site("encoder", "self", 0, 0)) == (1.0, 1.5)
    assert statistic_change(before, after, Site("encoder", "self", 1)) == (4.0, 5.0)
    said, site = (
        r"no encoder L7 H0; in encoder it has layers \[0, 1\]",
        Site("encoder", "self", 7, 0),
    )
    refuses(said, statistic_change, before, before, site, error=LookupError)


def test_probability_and_rank_of_each_word_before_and_after():
    before = a_trace(produced("das es", [0.9, 0.71], [1, 1]))
    table = output_changes(before, a_trace(produced("das es", [0.8, 0.22], [1, 3])))
    assert list(table["token"]) == ["das", "es"]
    assert table["probability_before"].tolist() == pytest.approx([0.9, 0.71])
    assert table["probability_after"].tolist() == pytest.approx([0.8, 0.22])
    assert table["rank_after"].tolist() == [1, 3]
    other = a_trace(produced("das sie", [0.9, 0.7], [1, 1]))
    refuses(r"different words \('das es' and 'das sie'\)", output_changes, before, other)
    refuses("no output layer", output_changes, a_trace(None), before, error=LookupError)
