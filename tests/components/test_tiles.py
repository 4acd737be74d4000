"""Thumbnails of heads: pooling, scales, changes and strongest links, against sums by hand."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from tests.support.many_heads import blocks_max, many
from tests.views.conftest import make_trace
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.metrics.attention.thumbnails import (
    change,
    extends,
    grown,
    halved,
    head_tiles,
    largest_change,
    own_scale,
    sentences,
    stride,
    strongest,
)


def appended(tokens: Tokens, count: int) -> Tokens:
    """Return a sentence with padding after it."""
    n = len(tokens)
    return Tokens(
        ids=tokens.ids + (0,) * count,
        pieces=tokens.pieces + ("<pad>",) * count,
        labels=tokens.labels + tuple(f"<pad> ({k})" for k in range(count)),
        words=tokens.words + tuple(range(n, n + count)),
        special=tokens.special + (True,) * count,
    )


clean = cache(make_trace)


def test_a_tile_is_divided_by_its_own_largest_weight() -> None:
    tiles = np.array([[[[0, 50], [100, 25]], [[0, 0], [0, 0]]]], np.uint8)
    shown = own_scale(tiles)
    assert shown.tolist() == [[[[0, 0.5], [1, 0.25]], [[0, 0], [0, 0]]]]
    assert shown.dtype == np.float32


def test_a_change_is_the_difference_of_weights() -> None:
    now = np.array([[[[255, 0], [51, 204]]]], np.uint8)
    before = np.array([[[[0, 255], [51, 255]]]], np.uint8)
    assert np.allclose(change(now, before)[0, 0], [[1, -1], [0, -0.2]])
    assert not change(now, now).any()
    with pytest.raises(ValueError, match="different models"):
        change(clean().thumbnail("cross"), clean().thumbnail("cross")[:1])
    # Small changes stay pale.
    assert largest_change(np.array([0.01, np.nan, -0.02])) == 0.05
    assert largest_change(np.array([0.1, np.nan, -0.3])) == pytest.approx(0.3)


def test_new_columns_got_nothing_and_new_rows_did_not_look() -> None:
    before = np.array([[0.25, 0.75], [1, 0]])
    wide = grown(before, (3, 4))
    assert np.array_equal(wide[:2], [[0.25, 0.75, 0, 0], [1, 0, 0, 0]])
    assert np.isnan(wide[2]).all() and wide.dtype == before.dtype
    assert grown(before, (2, 2)) is before
    assert grown(np.zeros((2, 3, 4, 5), np.float32), (4, 9)).shape == (2, 3, 4, 9)
    with pytest.raises(ValueError, match=r"different words: \(3, 2\) and \(2, 4\) cells"):
        grown(np.zeros((3, 2)), (2, 4))


def test_appended_padding_is_compared_and_other_words_are_not() -> None:
    """Two padding tokens after the source get a fifth of each weight."""
    now = clean().thumbnail("cross")
    wide = np.concatenate([now, np.full((*now.shape[:3], 2), 51, np.uint8)], axis=3)
    square = np.full((2, 3, 7, 7), 51, np.uint8)
    tiles = {"cross": wide, "encoder": square, "decoder": clean().thumbnail("decoder")}
    padded = dataclasses.replace(clean(), source=appended(clean().source, 2), thumbnails=tiles)
    shown = head_tiles(padded, "cross", clean())
    assert not shown[..., :5].any()  # the words as they were
    assert np.allclose(shown[..., 5:], 0.2)  # padding had nothing before
    encoder = head_tiles(padded, "encoder", clean())
    assert np.isnan(encoder[:, :, 5:]).all() and not np.isnan(encoder[:, :, :5]).any()
    assert not head_tiles(padded, "decoder", clean()).any()
    with pytest.raises(ValueError, match="different words"):
        head_tiles(clean(), "cross", padded)  # taken away, not appended
    ids = (*clean().source.ids[:-1], 99)
    other = dataclasses.replace(clean(), source=dataclasses.replace(clean().source, ids=ids))
    with pytest.raises(ValueError, match="different words"):
        head_tiles(other, "encoder", clean())
    head_tiles(other, "decoder", clean())  # its words are the same


def test_pooled_tiles_of_other_lengths_have_no_difference() -> None:
    def long(count: int, cells: int) -> Trace:
        source = appended(clean().source, count - 5)
        tiles = {"encoder": np.zeros((2, 3, cells, cells), np.uint8)}
        return dataclasses.replace(clean(), source=source, thumbnails=tiles)

    head_tiles(long(66, 33), "encoder", long(66, 33))
    with pytest.raises(ValueError, match="64 and 66 words are too many"):
        head_tiles(long(66, 33), "encoder", long(64, 64))


def test_rows_and_columns_have_their_sentences_and_strides() -> None:
    assert sentences(clean(), "cross") == (clean().target, clean().source)
    assert sentences(clean(), "encoder") == (clean().source, clean().source)
    assert sentences(clean(), "decoder") == (clean().target, clean().target)
    assert extends(appended(clean().source, 3), clean().source)
    assert not extends(clean().source, appended(clean().source, 3))
    assert stride(clean(), "cross") == (1, 1)
    for length, step in ((64, 1), (65, 2), (129, 3), (300, 5)):
        assert stride(many(1, 1, length, kept=False), "encoder") == (step, step), length
    assert stride(many(1, 1, 65, 200, blocks=("cross",)), "cross") == (2, 4)


def test_half_as_many_cells_keep_the_largest() -> None:
    tiles = many(2, 3, 7, 5, blocks=("cross",)).thumbnail("cross")
    assert np.array_equal(halved(tiles), blocks_max(tiles, 2, 2))
    assert halved(tiles).shape == (2, 3, 4, 3) and halved(tiles).dtype == np.uint8
    # A change keeps the largest size with its sign.
    changes = np.array([[0.1, -0.3, 0.2], [0.2, 0.25, -0.1], [np.nan, np.nan, np.nan]])
    shown = halved(changes.astype(np.float32))
    assert np.allclose(shown, [[-0.3, 0.2], [np.nan, np.nan]], equal_nan=True)
    half_gone = np.array([[np.nan, -0.1], [np.nan, np.nan]], np.float32)
    assert halved(half_gone).tolist() == [[pytest.approx(-0.1)]]


def test_the_strongest_link_is_the_largest_weight() -> None:
    """Also where only the thumbnail is left: then it is a cell of several words."""
    for queries, keys, kept in ((7, 5, True), (130, 70, True), (130, 70, False)):
        trace = many(2, 3, queries, keys, blocks=("cross",))
        found = strongest(trace if kept else dataclasses.replace(trace, attentions=()), "cross")
        for layer, head in np.ndindex(2, 3):
            case = (queries, kept, layer, head)
            weights = trace.attention("cross", layer=layer)[head]
            row, column = np.unravel_index(weights.argmax(), weights.shape)
            first, last, left, right = found[layer, head]
            if queries > 64 and kept:  # else two weights may be one 255th
                assert (first, last, left, right) == (row, row, column, column), case
            if not kept:
                assert first % 3 == 0 and last == min(first + 2, 129), case
                assert left % 2 == 0 and right == min(left + 1, 69), case
            best = weights[first : last + 1, left : right + 1].max()
            assert round(float(best) * 255) == round(float(weights.max()) * 255), case


def test_the_largest_change_is_found_and_new_rows_are_none() -> None:
    now = many(2, 3, 7)
    changes = change(now.thumbnail("encoder"), many(2, 3, 7, seed=8).thumbnail("encoder"))
    changes[:, :, 6] = np.nan
    found = strongest(now, "encoder", changes)
    for layer, head in np.ndindex(2, 3):
        row, _, column, _ = found[layer, head]
        assert abs(changes[layer, head, row, column]) == np.nanmax(np.abs(changes[layer, head]))
