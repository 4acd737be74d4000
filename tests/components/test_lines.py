"""Heads as lines, on Python's side: what the blob holds, by sums of its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.views.conftest import make_trace
from transformer_viz.components.lines import lines_data, lines_height
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.trace import Trace
from transformer_viz.metrics import merge_words, without_special
from transformer_viz.metrics.attention.word_merging import axis, produced_axis

from ..support.component_stage import decoded
from ..support.lines_stage import hard, made, ramp_weights


@pytest.fixture(scope="module")
def clean() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


def test_weights_of_each_head_are_the_runs_own(clean: Trace) -> None:
    header, arrays = decoded(lines_data(clean, "cross", [(1, 2), (0, 0), (1, 2)], MapLook(seq=7)))
    weights = clean.attention("cross")
    assert header["heads"] == [{"layer": 1, "head": 2}, {"layer": 0, "head": 0}]
    assert np.array_equal(arrays["weights"], np.stack([weights[1, 2], weights[0, 0]]))
    assert (header["part"], header["view"], header["seq"]) == ("head", "lines", 7)
    assert header["across"] and not header["change"]
    assert header["beyond"] == {"links": 0, "weight": 0.0}
    assert header["rows"]["labels"] == ["die", "Ka", "tze", "</s>"]
    assert header["columns"]["labels"] == list(clean.source.labels)
    assert "while they are produced" in header["caption"]


def test_words_stand_in_columns_where_a_sentence_looks_at_itself(clean: Trace) -> None:
    header, _ = decoded(lines_data(clean, "encoder", [(0, 1)], MapLook(token=2, key=3), top=3))
    assert not header["across"]
    assert header["caption"] == "words on the left look at words on the right"
    assert [header[word] for word in ("token", "key", "top")] == [2, 3, 3]


def test_without_special_tokens_rows_sum_to_one_again(clean: Trace) -> None:
    header, arrays = decoded(
        lines_data(clean, "cross", [(1, 2)], MapLook(special=False, words=True))
    )
    assert clean.produced is not None and clean.target is not None
    rows, columns = produced_axis(clean.produced, clean.target), axis(clean.source)
    kept = without_special(clean.attention("cross")[1, 2], rows, columns)
    merged = merge_words(kept.weights, kept.queries, kept.keys)
    assert np.array_equal(arrays["weights"][0], merged.weights)
    assert np.abs(arrays["weights"].sum(axis=2) - 1).max() < 1e-6
    assert header["columns"]["groups"] == [[0], [1, 2], [3]]
    assert header["note"] == f"{kept.note} {merged.note}"


def test_a_change_is_the_difference_of_the_weights(clean: Trace, warm: Trace) -> None:
    header, arrays = decoded(lines_data(warm, "decoder", [(0, 0), (1, 1)], before=clean))
    change = warm.attention("decoder") - clean.attention("decoder")
    drawn = np.nan_to_num(arrays["weights"])
    assert header["change"]
    assert np.abs(drawn - np.stack([change[0, 0], change[1, 1]])).max() < 1e-7
    masked = np.triu(np.ones((4, 4), bool), 1)
    assert (np.isnan(arrays["weights"]) == masked).all()


@pytest.mark.parametrize("block, queries, keys", [("encoder", 257, 257), ("cross", 3, 263)])
def test_of_long_sentences_the_strongest_links_are_sent(
    block: str, queries: int, keys: int
) -> None:
    weights = ramp_weights(2, queries, keys).astype(np.float32)
    header, arrays = decoded(lines_data(made(weights, block), block, [(0, 0), (0, 1)]))
    assert arrays["weights"].shape == arrays["keys"].shape == (2, queries, 16)
    order = np.argsort(-weights, axis=2, kind="stable")[..., :16]
    assert np.array_equal(arrays["keys"], order)
    assert np.array_equal(arrays["weights"], np.take_along_axis(weights, order, axis=2))
    assert header["beyond"]["links"] == 2 * queries * (keys - 16)
    left = weights.sum(dtype=np.float64) - arrays["weights"].sum(dtype=np.float64)
    assert header["beyond"]["weight"] == pytest.approx(left, abs=1e-6)


def test_a_row_with_fewer_links_than_are_sent_is_padded_with_zeros() -> None:
    trace = made(hard([[0, 5, 256] + [3] * 254], 257))
    header, arrays = decoded(lines_data(trace, "encoder", [(0, 0)]))
    assert list(arrays["keys"][0, :3, 0]) == [0, 5, 256]
    assert arrays["weights"].sum() == 257 and np.count_nonzero(arrays["weights"]) == 257
    assert header["beyond"] == {"links": 0, "weight": 0.0}


def test_what_heads_do_not_share_is_said_of_each() -> None:
    weights = hard([[0, 1, 2], [1, 1, 1]], 3)
    trace = made(weights)
    marked = dataclasses.replace(trace.source, special=(False, True, False))
    trace = dataclasses.replace(trace, source=marked)
    header, _ = decoded(lines_data(trace, "encoder", [(0, 0), (0, 1)], MapLook(special=False)))
    assert header["note"].startswith("L0 H0: Special tokens are hidden")
    assert "L0 H1: " in header["note"] and "2 rows looked at special tokens" in header["note"]


@pytest.mark.parametrize("count", [0, 9])
def test_too_many_heads_are_refused(count: int) -> None:
    trace = made(ramp_weights(9, 3, 3))
    with pytest.raises(ValueError, match=f"one to 8 heads at once.*got {count}"):
        lines_data(trace, "encoder", [(0, head) for head in range(count)])


def test_a_head_that_is_not_there_is_refused_by_name(clean: Trace) -> None:
    with pytest.raises(LookupError, match="heads 0 to 2; got 3"):
        lines_data(clean, "cross", [(0, 0), (0, 3)])


def test_the_height_follows_the_words_within_limits() -> None:
    assert lines_height("encoder", 5, 5) == 340
    assert lines_height("encoder", 17, 17) == 456
    assert lines_height("encoder", 500, 500) == 560
    assert lines_height("cross", 5, 5) == lines_height("cross", 500, 7) == 400
