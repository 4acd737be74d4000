"""Heads and alignments as lines, on Python's side: what the blob holds, by independent sums."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

import transformer_viz as tv
from tests.metrics.alignment.test_alignment import IDENTITY, WRITES, across, looking
from tests.support.component_stage import decoded
from tests.support.lines_stage import hard, made, ramp_weights
from tests.views.conftest import make_trace
from transformer_viz.components.lines import lines_data, lines_height
from transformer_viz.components.map_look import MapLook
from transformer_viz.components.word_links import word_links_data
from transformer_viz.metrics import merge_words, without_special
from transformer_viz.metrics.attention.word_merging import axis, produced_axis

clean = cache(make_trace)


def test_weights_of_each_head_are_those_of_the_run() -> None:
    header, arrays = decoded(lines_data(clean(), "cross", [(1, 2), (0, 0), (1, 2)], MapLook(seq=7)))
    weights = clean().attention("cross")
    assert header["heads"] == [{"layer": 1, "head": 2}, {"layer": 0, "head": 0}]
    assert np.array_equal(arrays["weights"], np.stack([weights[1, 2], weights[0, 0]]))
    assert (header["part"], header["view"], header["seq"]) == ("head", "lines", 7)
    assert header["across"] and not header["change"]
    assert header["beyond"] == {"links": 0, "weight": 0.0}
    assert header["rows"]["labels"] == ["die", "Ka", "tze", "</s>"]
    assert header["columns"]["labels"] == list(clean().source.labels)
    assert "while they are produced" in header["caption"]
    # Where a sentence looks at itself, words stand in columns.
    header, _ = decoded(lines_data(clean(), "encoder", [(0, 1)], MapLook(token=2, key=3), top=3))
    assert not header["across"]
    assert header["caption"] == "words on the left look at words on the right"
    assert [header[word] for word in ("token", "key", "top")] == [2, 3, 3]


def test_without_special_tokens_rows_sum_to_one_again() -> None:
    look = MapLook(special=False, words=True)
    header, arrays = decoded(lines_data(clean(), "cross", [(1, 2)], look))
    rows, columns = produced_axis(clean().produced, clean().target), axis(clean().source)
    kept = without_special(clean().attention("cross")[1, 2], rows, columns)
    merged = merge_words(kept.weights, kept.queries, kept.keys)
    assert np.array_equal(arrays["weights"][0], merged.weights)
    assert np.abs(arrays["weights"].sum(axis=2) - 1).max() < 1e-6
    assert header["columns"]["groups"] == [[0], [1, 2], [3]]
    assert header["note"] == f"{kept.note} {merged.note}"
    # A note that heads do not share is told of each.
    trace = made(hard([[0, 1, 2], [1, 1, 1]], 3))
    marked = dataclasses.replace(trace.source, special=(False, True, False))
    trace = dataclasses.replace(trace, source=marked)
    header, _ = decoded(lines_data(trace, "encoder", [(0, 0), (0, 1)], MapLook(special=False)))
    assert header["note"].startswith("L0 H0: Special tokens are hidden")
    assert "L0 H1: " in header["note"] and "2 rows looked at special tokens" in header["note"]


def test_a_change_is_the_difference_of_the_weights() -> None:
    warm = make_trace(temperature=3.0, probability=0.25)
    header, arrays = decoded(lines_data(warm, "decoder", [(0, 0), (1, 1)], before=clean()))
    change = warm.attention("decoder") - clean().attention("decoder")
    drawn = np.nan_to_num(arrays["weights"])
    assert header["change"]
    assert np.abs(drawn - np.stack([change[0, 0], change[1, 1]])).max() < 1e-7
    assert (np.isnan(arrays["weights"]) == np.triu(np.ones((4, 4), bool), 1)).all()


def test_of_long_sentences_the_strongest_links_are_sent() -> None:
    for block, queries, keys in (("encoder", 257, 257), ("cross", 3, 263)):
        weights = ramp_weights(2, queries, keys).astype(np.float32)
        header, arrays = decoded(lines_data(made(weights, block), block, [(0, 0), (0, 1)]))
        assert arrays["weights"].shape == arrays["keys"].shape == (2, queries, 16), block
        order = np.argsort(-weights, axis=2, kind="stable")[..., :16]
        assert np.array_equal(arrays["keys"], order), block
        assert np.array_equal(arrays["weights"], np.take_along_axis(weights, order, axis=2))
        assert header["beyond"]["links"] == 2 * queries * (keys - 16), block
        left = weights.sum(dtype=np.float64) - arrays["weights"].sum(dtype=np.float64)
        assert header["beyond"]["weight"] == pytest.approx(left, abs=1e-6), block
    # A row with fewer links is padded with zeros.
    header, arrays = decoded(
        lines_data(made(hard([[0, 5, 256] + [3] * 254], 257)), "encoder", [(0, 0)])
    )
    assert list(arrays["keys"][0, :3, 0]) == [0, 5, 256]
    assert arrays["weights"].sum() == 257 and np.count_nonzero(arrays["weights"]) == 257
    assert header["beyond"] == {"links": 0, "weight": 0.0}


def test_heads_that_cannot_be_drawn_are_refused() -> None:
    trace = made(ramp_weights(9, 3, 3))
    for count in (0, 9):
        with pytest.raises(ValueError, match=f"one to 8 heads at once.*got {count}"):
            lines_data(trace, "encoder", [(0, head) for head in range(count)])
    with pytest.raises(LookupError, match="heads 0 to 2; got 3"):
        lines_data(clean(), "cross", [(0, 0), (0, 3)])


def test_the_height_follows_the_words_within_limits() -> None:
    assert [lines_height("encoder", n, n) for n in (5, 17, 500)] == [340, 456, 560]
    assert lines_height("cross", 5, 5) == lines_height("cross", 500, 7) == 400


# ---- alignments --------------------------------------------------------------------------------


def test_linked_pairs_and_the_other_weight_are_two_kinds() -> None:
    trace = across(0.7 * WRITES + 0.3 * looking([1, 2, 3, 4, 5, 0]))
    found = tv.align(trace)
    header, arrays = decoded(word_links_data(trace, found, picked=(1, 2), top=3, threshold=0.1))
    links, rest = arrays["weights"]
    assert np.array_equal(links + rest, found.weights)
    assert {(s, t) for t, s in np.argwhere(links).tolist()} == set(IDENTITY) == set(found.pairs)
    assert not (links * rest).any() and rest.max() == pytest.approx(0.3)
    assert [one["name"] for one in header["heads"]] == ["links", "other weight"]
    assert header["columns"]["labels"] == [f"w{n}" for n in range(5)]
    assert (header["token"], header["key"]) == (1, 2)
    assert (header["top"], header["threshold"], header["unread"]) == (3, 0.1, [])


def test_words_of_an_alignment_are_the_rows_that_write_them() -> None:
    """Source: the | c at | the; target: die | Ka tze, which rows 0 and 1, 2 produce."""
    for shift in ("out", "in"):
        header, _ = decoded(word_links_data(clean(), tv.align(clean(), shift)))
        assert header["columns"]["groups"] == [[0], [1, 2], [3]], shift
        rows = header["rows"]
        assert (rows["sentence"], rows["groups"]) == ("produced", [[0], [1, 2]]), shift
        assert rows["labels"] == ["die", "Katze"], shift
    # Words that no row reads are marked.
    trace = across(looking([0, 0, 0, 0, 0, 5]))
    found = tv.align(trace)
    header, _ = decoded(word_links_data(trace, found))
    assert header["unread"] == [1, 2, 3, 4] == list(found.unread)
    assert "read by nobody" in header["note"]
