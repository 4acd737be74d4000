"""tv.align on maps made by hand: words, shifts (P33), links, coverage, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import transformer_viz as tv
from tests.support.refusals import refuses
from tests.views.conftest import SOURCE, TARGET, make_trace
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Tokens
from transformer_viz.metrics.alignment.error_rate import Gold
from transformer_viz.metrics.alignment.judging import judged_table, places
from transformer_viz.metrics.alignment.linking import SHIFTS, joined

EXACT = 1e-6
WORDS = 5


def sentence(words: int, start: bool) -> Tokens:
    """``<s>`` and words for a decoder, or words and ``</s>``; a word a token."""
    names = [f"w{n}" for n in range(words)]
    pieces = ("<s>", *names) if start else (*names, "</s>")
    special = tuple(piece.startswith("<") for piece in pieces)
    return Tokens(tuple(range(len(pieces))), pieces, pieces, tuple(range(len(pieces))), special)


def across(*heads: np.ndarray, source: Tokens | None = None, target: Tokens | None = None) -> Trace:
    """A run of one layer whose cross heads ``[row, key]`` are given."""
    weights = np.stack(heads).astype(np.float32)
    site = Site("decoder", "cross", 0)
    one = Attention(weights, site, "target", "source")
    source = source or sentence(weights.shape[2] - 1, start=False)
    target = target or sentence(weights.shape[1] - 1, start=True)
    thumbnails = {"cross": np.zeros((1, len(heads), 1, 1), np.uint8)}
    return replace(
        make_trace(), source=source, target=target, attentions=(one,), thumbnails=thumbnails
    )


def looking(at: list[int], keys: int = WORDS + 1) -> np.ndarray:
    """Row i looks at ``at[i]`` alone."""
    return np.eye(keys)[at]


#: Row t reads word t - 1 and writes word t; the last row writes the end.
WRITES = looking([0, 1, 2, 3, 4, 5])
READS = looking([5, 0, 1, 2, 3, 4])
IDENTITY = frozenset((n, n) for n in range(WORDS))


def test_each_shift_reads_its_own_row():
    """P33 by hand: the head that looks at what it writes, and the one a row later."""
    trace = across(WRITES, READS)
    each = product((0, 1), SHIFTS)
    found = {(head, shift): tv.align(trace, shift, layer=0, head=head) for head, shift in each}
    assert found[0, "out"].pairs == found[1, "in"].pairs == IDENTITY
    gold = Gold(IDENTITY, IDENTITY)
    rates = {key: one.counts(gold).error_rate for key, one in found.items()}
    assert rates == {(0, "out"): 0, (0, "in"): 1, (1, "in"): 0, (1, "out"): 1}
    assert found[0, "out"].pharaoh() == "0-0 1-1 2-2 3-3 4-4\n"
    # of the wrong row the first word looks at the word after it, and the last at the end mark
    assert found[0, "in"].pharaoh() == "1-0 2-1 3-2 4-3\n"
    assert found[1, "out"].pharaoh() == "0-1 1-2 2-3 3-4\n"


def test_pieces_are_added_in_the_source_and_averaged_in_the_target():
    """Source: the | c at | the | </s>. Target: <s> | die | Ka tze, written a row before."""
    rows = [
        [0.1, 0.3, 0.3, 0.25, 0.05],  # writes "die": "cat" has .6, though "the (2)" is no less
        [0.2, 0.0, 0.2, 0.5, 0.1],  # writes "Ka"
        [0.5, 0.0, 0.0, 0.2, 0.3],  # writes "tze"
        [0.0, 0.0, 0.0, 0.0, 1.0],  # writes the end
    ]
    out = tv.align(across(np.array(rows), source=SOURCE, target=TARGET), layer=0, head=0)
    assert out.source == ("the", "cat", "the (2)")
    assert out.target == ("die", "Katze")
    wanted = [[0.1, 0.6, 0.25], [0.35, 0.1, 0.35]]
    assert out.weights == pytest.approx(np.array(wanted), abs=EXACT)
    # "die" - cat; of "Katze" two words are equal, so it is linked to none
    assert out.pairs == {(1, 0)}
    row = out.links.iloc[0]
    assert (row["source_word"], row["target_word"]) == ("cat", "die")
    assert row["weight"] == pytest.approx(0.6)
    read = tv.align(across(np.array(rows), source=SOURCE, target=TARGET), "in", layer=0, head=0)
    assert read.weights == pytest.approx(np.array([[0.2, 0.2, 0.5], [0.25, 0, 0.1]]), abs=EXACT)
    assert read.pairs == {(2, 0)}  # "Katze" looks at the end mark most, .65
    # a blank that is a piece of its own is no part of the word
    pieces, labels = ("▁A", "▁", ".", "</s>"), ("A", "␣", ".", "</s>")
    source = Tokens((4, 5, 6, 3), pieces, labels, (0, 1, 1, 2), (False, False, False, True))
    assert tv.align(across(np.eye(4)[:3], source=source)).source == ("A", ".")


def test_means_of_heads_and_layers():
    """The mean of .6 x diagonal and .4 x shifted is as the diagonal; its own layer says so too."""
    trace = across(WRITES, WRITES, READS)
    for found in (tv.align(trace), tv.align(trace, layer=0)):
        assert found.pairs == IDENTITY
        assert np.diag(found.weights) == pytest.approx([2 / 3] * WORDS)
    assert tv.align(trace).card["heads"] == "the mean of all heads"
    assert tv.align(trace, layer=0).card["heads"] == "the mean of the heads of L0"
    assert tv.align(trace, layer=0, head=2).card["heads"] == "cross L0 H2"


def test_words_that_nobody_reads():
    """All rows on w0 and w1: w2, w3 and w4 got nothing; the others 15/6 of their fair part.

    A head that looks everywhere alike links nothing.
    """
    even = np.full((WORDS + 1, WORDS + 1), 1 / (WORDS + 1))  # who sees all: no word is masked
    found = tv.align(across(even))
    assert (found.pairs, found.pharaoh(), found.unread) == (frozenset(), "\n", ())
    for walk, value in zip(found.walks, (0.5, 0, 1), strict=True):
        assert (walk.value, walk.chance) == pytest.approx((value, value), abs=EXACT), walk.name
    found = tv.align(across(looking([0, 1, 0, 1, 0, 1]), even), layer=0, head=0)
    assert found.unread == (2, 3, 4)
    # six rows on five words: a fair part is 6/5 of a row, and each of the two has 3 rows
    assert found.shares == pytest.approx([2.5, 2.5, 0, 0, 0])
    walk = {one.name: one for one in found.walks}
    assert walk["coverage"].value == pytest.approx(2 / 5)
    assert (walk["coverage"].chance, walk["coverage"].rows) == (1, WORDS)
    assert walk["monotonicity"].rows == 10  # pairs of the five rows that write words


def test_reading_by_the_row_of_the_word_is_the_table_of_heads():
    """``in`` asks the rows that tv.metrics asks; ``out`` the same rows by what they write."""
    trace = make_trace()
    table = tv.metrics(trace).query("block == 'cross'")
    for row in table.itertuples():
        for walk in tv.align(trace, "in", layer=row.layer, head=row.head).walks:
            assert walk.value == pytest.approx(getattr(row, walk.name), nan_ok=True)
            assert walk.chance == pytest.approx(getattr(row, f"{walk.name}_chance"), nan_ok=True)
            assert walk.rows == getattr(row, f"{walk.name}_rows")


def test_both_sides_asked_and_joined():
    """Och's heuristics by hand: the rows say 0-0 1-1 1-2, the columns 0-0 1-1 2-3."""
    rows, columns = {(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1), (2, 3)}
    assert joined(rows, columns, "intersection") == {(0, 0), (1, 1)}
    assert joined(rows, columns, "union") == {(0, 0), (1, 1), (1, 2), (2, 3)}
    # 1-2 stands beside 1-1 and brings the free word 2; then 2-3 beside 1-2
    assert joined(rows, columns, "grow-diag") == {(0, 0), (1, 1), (1, 2), (2, 3)}
    assert joined({(0, 0), (4, 4)}, {(0, 0)}, "grow-diag") == {(0, 0)}  # 4-4 has no neighbour
    # a link between words that have one each already is not added
    assert joined({(0, 0), (1, 1), (1, 0)}, {(0, 0), (1, 1)}, "grow-diag") == {(0, 0), (1, 1)}
    refuses("intersection, union, grow-diag; got 'both'", joined, rows, columns, "both")
    # Two target words look at w0 and one at w1: w0 is looked at most by the first alone.
    rows = np.array([[0.9, 0.1, 0, 0], [0.6, 0.3, 0.1, 0], [0.1, 0.2, 0.7, 0], [0, 0, 0, 1]])
    trace = across(rows)
    assert tv.align(trace).pairs == {(0, 0), (0, 1), (2, 2)}
    # the columns: w0 by t0, w1 by t1, w2 by t2
    assert tv.align(trace, symmetric="intersection").pairs == {(0, 0), (2, 2)}
    assert tv.align(trace, symmetric="union").pairs == {(0, 0), (0, 1), (1, 1), (2, 2)}
    assert tv.align(trace, symmetric="intersection").card["symmetric"] == "intersection"


def test_a_model_of_the_other_direction():
    one, other = tv.align(across(WRITES)), tv.align(across(looking([0, 1, 2, 3, 3, 5])))
    assert one.beside(other, "intersection") == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert one.beside(other, "union") == IDENTITY | {(4, 3)}
    short = tv.align(across(np.eye(4)))
    refuses("this source has 5 words and this target 5; the other", one.beside, short)
    card = one.card  # which says what was measured
    assert {"model", "model_hash", "sentences", "sentences_hash", "seed", "version", "dtype"} <= {
        *card
    }
    assert (card["rows"], card["shift"], card["heads"]) == (5, "out", "the mean of all heads")
    assert short.card["sentences_hash"] != card["sentences_hash"]


def test_what_cannot_be_aligned_is_said():
    trace = make_trace()
    alone = replace(trace, thumbnails={"encoder": trace.thumbnails["encoder"]})
    unkept = replace(trace, attentions=())
    no_words = replace(trace, source=replace(trace.source, ids=()))
    blocks = trace.blocks("cross")
    shapes = tuple(replace(a, weights=a.weights[..., : 5 - a.site.layer]) for a in blocks)
    for run, words, match in (
        (trace, {"shift": "both"}, 'shift is "out" or "in"; got \'both\''),
        (trace, {"head": 1}, "Head 1 of which layer"),
        (trace, {"symmetric": "yes"}, "symmetric is one of intersection"),
        (no_words, {}, "joins words, and the source of this run has none"),
        (replace(trace, attentions=shapes), {}, "differ in shape"),
    ):
        refuses(match, tv.align, run, **words)
    for run, words, match in (
        (trace, {"layer": 7}, "has no layer 7"),
        (trace, {"layer": 0, "head": 9}, "L0 has no head 9; it has H0 to H2"),
        (alone, {}, "reads cross-attention, and this model has none: its m"),
        (unkept, {}, "were not kept"),
    ):
        refuses(match, tv.align, run, error=LookupError, **words)
    gold = Gold(frozenset(), frozenset({(9, 0)}))
    refuses("counted from 1, or the target named first", tv.align(trace).counts, gold)


def test_each_map_has_the_error_that_its_own_alignment_has():
    trace = across(WRITES, READS, 0.6 * WRITES + 0.4 * READS)
    gold = Gold(IDENTITY - {(0, 0)}, IDENTITY | {(1, 0)})
    table = judged_table(trace, gold)
    assert len(table) == len(places(trace)) == 2 * (3 + 1 + 1)
    for row in table.itertuples():
        layer, head = (None if pd.isna(n) else int(n) for n in (row.layer, row.head))
        counts = tv.align(trace, row.shift, layer=layer, head=head).counts(gold)
        assert row.error_rate == pytest.approx(counts.error_rate)
        assert (row.found, row.sure, row.right_sure) == (counts.found, 4, counts.right_sure)
    assert list(table["error_rate"]) == sorted(table["error_rate"])
    assert table.iloc[0]["error_rate"] == 0
