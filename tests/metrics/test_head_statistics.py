"""Metrics: sums done by hand, and the laws that hold for any weights."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.head_formulas import FORMULAS
from transformer_viz.core.head_metrics import HEAD_METRICS, HeadMetric
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Produced, Report, Tokens
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


def some_weights(seed: int = 1) -> np.ndarray:
    """Random rows that sum to 1, ``[head, query, key]`` float32."""
    raw = np.random.default_rng(seed).random((HEADS, QUERIES, KEYS))
    return (raw / raw.sum(-1, keepdims=True)).astype(np.float32)


def test_statistics_by_hand() -> None:
    weights = np.array([[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]], dtype=np.float32)
    row = head_statistics(weights).iloc[0]
    assert row["head"] == 0
    assert row["entropy"] == pytest.approx((1.0 + 1.5) / 2)  # 1 bit; 2 * 0.25 * 2 + 0.5 * 1 bits
    assert row["distance"] == pytest.approx((0.5 * 1 + 0.25 * 1 + 0.5 * 1) / 2)
    assert row["max"] == 0.5
    assert row["sink"] == pytest.approx((0.5 + 0.25) / 2)
    assert row["row_sum_error"] == 0.0


def test_columns_are_those_of_the_probe() -> None:
    columns = [metric.name for metric in HEAD_METRICS]
    assert columns == list(FORMULAS) and {"entropy", "row_sum_error"} < set(columns)
    assert list(head_statistics(some_weights()).columns) == ["head", *columns]


@pytest.mark.parametrize("name", [metric.name for metric in HEAD_METRICS])
def test_a_metric_gives_one_finite_number_a_head(name: str) -> None:
    weights = some_weights()
    before = weights.copy()
    values = head_statistics(weights)[name].to_numpy()
    assert values.shape == (HEADS,)
    assert np.isfinite(values).all()
    assert np.array_equal(weights, before)
    np.testing.assert_allclose(values, FORMULAS[name](weights), rtol=1e-14, atol=1e-14)
    swapped = head_statistics(weights[::-1])[name].to_numpy()
    assert np.array_equal(swapped[::-1], values), "heads do not see each other"


@pytest.mark.parametrize("metric", HEAD_METRICS, ids=lambda metric: metric.name)
def test_a_metric_that_is_shown_has_its_texts(metric: HeadMetric) -> None:
    assert bool(metric.title) == bool(metric.ranked)
    assert metric.name.isidentifier() and metric.combined in ("mean", "max")
    assert metric.unit in metric.heading, "the table says the unit"
    for text in (metric.heard, metric.below_map):
        assert not text or ("{number" in text and metric.unit in text)


@given(st.integers(1, 60), st.integers(1, 9))
def test_a_uniform_row_over_n_keys_has_entropy_log2_n(keys: int, queries: int) -> None:
    statistics = head_statistics(np.full((1, queries, keys), 1 / keys))
    assert statistics["entropy"][0] == pytest.approx(math.log2(keys))
    assert statistics["row_sum_error"][0] == pytest.approx(0, abs=1e-12)


def test_a_head_that_looks_at_itself() -> None:
    statistics = head_statistics(np.eye(KEYS)[None])
    assert statistics["entropy"][0] == 0
    assert statistics["distance"][0] == 0
    assert statistics["max"][0] == 1
    assert statistics["sink"][0] == pytest.approx(1 / KEYS)  # only query 0 looks at key 0


def test_a_silenced_row_counts_as_it_is() -> None:
    weights = np.zeros((1, 2, 3))
    weights[0, 0] = 1 / 3
    row = head_statistics(weights).iloc[0]
    assert row["entropy"] == pytest.approx(math.log2(3) / 2)
    assert row["row_sum_error"] == 1


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4, 5), (2, 0, 3), (0, 2, 3)])
def test_statistics_refuse_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"weights \[head, query, key\].*got shape"):
        head_statistics(np.zeros(shape))


def test_strongest_links() -> None:
    row = np.array([0.1, 0.6, 0.0, 0.3])
    labels = ("The", "animal", "it", "was")
    assert strongest_links(row, labels) == [("animal", 0.6), ("was", 0.3)]
    assert strongest_links(row, labels, 9) == [("animal", 0.6), ("was", 0.3), ("The", 0.1)]
    assert strongest_links(np.full(4, 0.25), labels, 1) == [("The", 0.25)], "equals: the earlier"


def test_strongest_links_need_a_label_a_key() -> None:
    with pytest.raises(ValueError, match="4 weights needs 4 labels; got 2"):
        strongest_links(np.zeros(4), ("a", "b"))


def test_a_row_in_a_sentence() -> None:
    row = np.array([0.62, 0.21, 0.17])
    said = describe_row(row, "es", ("animal", "it", "was"))
    assert said == "“es” looks most at “animal” 0.62, then “it” 0.21."
    assert "looks at nothing" in describe_row(np.zeros(3), "es", ("animal", "it", "was"))


def a_side(words: tuple[int, ...], special: tuple[bool, ...] | None = None) -> Axis:
    labels = tuple(f"p{i}" for i in range(len(words)))
    return Axis(labels, words, special or (False,) * len(words))


def test_merging_by_hand() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    merged = merge_words(weights, a_side((0, 0)), a_side((0, 0, 1)))
    # columns: 0.1 + 0.2 = 0.3 and 0.3 + 0.3 = 0.6; rows: (0.3 + 0.6) / 2 and (0.7 + 0.4) / 2
    assert merged.weights == pytest.approx(np.array([[0.45, 0.55]]))
    assert merged.queries.labels == ("p0p1",)
    assert merged.keys.labels == ("p0p1", "p2")
    assert merged.note == "Pieces are merged to words: columns summed, rows averaged."


def test_merging_keeps_row_sums_in_every_head() -> None:
    weights = some_weights()
    merged = merge_words(weights, a_side((0, 0, 1, 2, 2)), a_side((0, 1, 1, 1, 2, 3, 3)))
    assert merged.weights.shape == (HEADS, 3, 4)
    assert merged.weights.dtype == np.float32
    assert merged.weights.sum(-1) == pytest.approx(np.ones((HEADS, 3)), abs=1e-6)


def test_merging_single_pieces_changes_nothing_and_says_nothing() -> None:
    weights = some_weights()
    merged = merge_words(weights, a_side(tuple(range(5))), a_side(tuple(range(7))))
    assert np.array_equal(merged.weights, weights)
    assert merged.note == ""


def test_words_are_spelled_without_the_marks_of_labels() -> None:
    labels = ("the", "str", "eet", "the (2)", "🙂 1/4", "🙂 2/4", "🙂 3/4", "🙂 4/4", ".", ". (2)")
    side = Axis(labels, (0, 1, 1, 2, 3, 3, 3, 3, 4, 4), (False,) * 10)
    merged = merge_words(np.eye(10), side, side)
    assert merged.keys.labels == ("the", "street", "the (2)", "🙂", "..")


def test_special_tokens_go_and_rows_are_divided_by_what_is_left() -> None:
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


def test_rows_stay_as_they_were_where_no_column_goes() -> None:
    weights = np.array([[0.25, 0.25], [0.5, 0.5]])  # the first row was edited to half its sum
    shown = without_special(weights, a_side((0, 1), (False, True)), a_side((0, 1)))
    assert np.array_equal(shown.weights, [[0.25, 0.25]])
    assert shown.note == "Special tokens are hidden."
    untouched = without_special(weights, a_side((0, 1)), a_side((0, 1)))
    assert untouched.note == ""


@pytest.mark.parametrize("regroup", [merge_words, without_special])
def test_axes_must_fit(regroup) -> None:
    with pytest.raises(ValueError, match="name 2 queries and 3 keys"):
        regroup(np.zeros((1, 3, 2)), a_side((0, 1)), a_side((0, 1, 2)))


def sentence(pieces: str, special: str = "") -> Tokens:
    names = tuple(pieces.split())
    ids = tuple(sum(map(ord, name)) for name in names)
    flags = tuple(name in special.split() for name in names)
    return Tokens(ids, names, names, tuple(range(len(names))), flags)


def produced(pieces: str, probability: list[float], rank: list[int]) -> Produced:
    names = tuple(pieces.split())
    ids = tuple(sum(map(ord, name)) for name in names)
    return Produced(ids, names, names, np.array(probability, np.float32), np.array(rank))


def test_rows_of_a_decoder_are_named_after_what_they_produce() -> None:
    target = Tokens(
        (2, 11, 12, 13),
        ("<s>", "▁Ti", "er", "."),
        ("<s>", "Ti", "er", "."),
        (0, 1, 1, 2),
        (True, *[False] * 3),
    )
    made = Produced(
        (11, 12, 13, 3),
        ("▁Ti", "er", ".", "</s>"),
        ("Ti", "er", ".", "</s>"),
        np.ones(4),
        np.ones(4),
    )
    side = produced_axis(made, target)
    assert side.words == (1, 1, 2, 3)
    assert side.special == (False, False, False, True)
    assert axis(target).labels == target.labels


def test_words_that_were_not_read_stand_alone() -> None:
    side = produced_axis(produced("Das es", [1, 1], [1, 1]), sentence("<s> Die", "<s>"))
    assert side.words == (0, 1)


def a_trace(made: Produced | None, entropies: list[float]) -> Trace:
    heads = pd.DataFrame(
        {
            "stack": "encoder",
            "block": "self",
            "layer": [0, 0, 1, 1],
            "head": [0, 1, 0, 1],
            "entropy": entropies,
        }
    )
    nothing = pd.DataFrame()
    return Trace(
        source=sentence("a b"),
        target=None,
        produced=made,
        heads=heads,
        thumbnails={},
        attentions=(),
        norms=nothing,
        gains={},
        residuals=nothing,
        positions={},
        logits=None,
        report=Report((), 0.0, None, {}),
        manifest={},
    )


def test_entropy_before_and_after() -> None:
    before = a_trace(None, [1.0, 2.0, 3.0, 5.0])
    after = a_trace(None, [1.5, 2.0, 4.0, 6.0])
    assert statistic_change(before, after, Site("encoder", "self", 0, 0)) == (1.0, 1.5)
    assert statistic_change(before, after, Site("encoder", "self", 1)) == (4.0, 5.0)


def test_entropy_of_a_site_that_is_not_there() -> None:
    trace = a_trace(None, [1.0, 2.0, 3.0, 5.0])
    with pytest.raises(LookupError, match=r"no encoder L7 H0; in encoder it has layers \[0, 1\]"):
        statistic_change(trace, trace, Site("encoder", "self", 7, 0))


def test_probability_and_rank_of_each_word_before_and_after() -> None:
    before = a_trace(produced("das es", [0.9, 0.71], [1, 1]), [0.0] * 4)
    after = a_trace(produced("das es", [0.8, 0.22], [1, 3]), [0.0] * 4)
    table = output_changes(before, after)
    assert list(table["token"]) == ["das", "es"]
    assert table["probability_before"].tolist() == pytest.approx([0.9, 0.71])
    assert table["probability_after"].tolist() == pytest.approx([0.8, 0.22])
    assert table["rank_after"].tolist() == [1, 3]


def test_different_words_cannot_be_compared() -> None:
    before = a_trace(produced("das es", [0.9, 0.7], [1, 1]), [0.0] * 4)
    after = a_trace(produced("das sie", [0.9, 0.7], [1, 1]), [0.0] * 4)
    with pytest.raises(ValueError, match=r"different words \('das es' and 'das sie'\)"):
        output_changes(before, after)
    with pytest.raises(LookupError, match="no output layer"):
        output_changes(a_trace(None, [0.0] * 4), after)
