"""M13 to M16: order, diagonal, coverage, and alignment against gold."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.head_arrays import crossed, looking, maps, uniform
from transformer_viz.metrics.heads import across
from transformer_viz.metrics.heads.alignment import (
    alignment_error_rate,
    alignment_links,
    gold_links,
    link_counts,
)

IDENTITY = {(i, i) for i in range(5)}


def test_monotonicity_of_order_reverse_and_uniform() -> None:
    heads = np.concatenate([looking(range(6)), looking(range(5, -1, -1)), uniform(6)])
    assert across.monotonicity(crossed(heads)).mean == pytest.approx([1, 0, 0.5], abs=1e-6)


def test_diagonality_of_diagonal_uniform_and_reverse() -> None:
    heads = np.concatenate([looking(range(6)), uniform(6), looking(range(5, -1, -1))])
    found = across.diagonality(crossed(heads)).mean
    assert found[:2] == pytest.approx([1, 0], abs=1e-6)
    assert found[2] < 0  # not clipped
    longer = looking([0, 0, 1, 1, 2, 2, 3], keys=4)
    assert across.diagonality(crossed(longer)).mean > 0.8


def test_coverage_and_the_words_that_nobody_reads() -> None:
    heads = np.concatenate([uniform(6), looking([0, 0, 1, 1, 2, 2], keys=6)])
    assert across.coverage(crossed(heads)).mean == pytest.approx([1, 0.5], abs=1e-6)
    assert across.dead_words(crossed(heads)).mean.tolist() == [0, 0.5]
    content = across.coverage(crossed(heads, special=[5], view="content"))
    assert content.mean == pytest.approx([1, 3 / 5], abs=1e-6)


def test_self_attention_is_not_asked() -> None:
    for metric in (across.monotonicity, across.diagonality, across.coverage):
        assert np.isnan(metric(maps(uniform(6))).mean)


def test_the_row_that_writes_a_word_and_the_row_that_reads_it() -> None:
    diagonal, shifted = looking(range(6)), looking([5, 0, 1, 2, 3, 4])
    words = np.array([0, 1, 2, 3, 4, -1])
    for head, out, into in ((diagonal, 0.0, 1.0), (shifted, 1.0, 0.0)):
        for shift, wanted in (("out", out), ("in", into)):
            found = alignment_links(head, words, np.arange(5), shift)
            counts = link_counts(found, IDENTITY)
            assert alignment_error_rate(counts) == pytest.approx([wanted])
    with pytest.raises(ValueError, match='shift is "out" or "in"'):
        alignment_links(diagonal, words, np.arange(5), "both")


def test_pieces_are_added_on_the_source_and_averaged_on_the_target() -> None:
    weights = np.array([[[0.3, 0.3, 0.4, 0], [0.2, 0.1, 0.7, 0], [0, 0, 0.1, 0.9]]])
    source = np.array([0, 0, 1, -1])
    assert alignment_links(weights, source, np.array([0, 1, 2])).tolist() == [[0, 1, -1]]
    assert alignment_links(weights, source, np.array([0, 0, 1])).tolist() == [[1, -1]]


def test_error_rate_of_four_sentences_by_hand() -> None:
    found = [np.array([[0, 1, -1]]), np.array([[1, 0]]), np.array([[-1, -1]]), np.array([[2, 0]])]
    lines = ["1-1 2p2 3-3", "1-2", "1-1", "3-1 1p2"]
    counts = np.zeros((1, 4), dtype=np.int64)
    for links, line in zip(found, lines, strict=True):
        counts += link_counts(links, *gold_links(line, first=1))
    # A: 0-0 1-1 | 1-0 0-1 | none | 2-0 0-1;  S: 0-0 2-2 | 0-1 | 0-0 | 2-0
    assert counts.tolist() == [[3, 5, 6, 5]]
    assert alignment_error_rate(counts) == pytest.approx([1 - 8 / 11])
    assert np.isnan(alignment_error_rate(np.zeros((1, 4)))).all()


@pytest.mark.parametrize("line", ["1-1 2", "0-1", "a-b"])
def test_gold_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="A gold link is written"):
        gold_links(line, first=1)
