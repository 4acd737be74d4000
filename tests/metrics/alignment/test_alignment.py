"""tv.align on maps made by hand: words, shifts (P33), links, coverage, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import transformer_viz as tv
from tests.views.conftest import SOURCE, TARGET, make_trace
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Tokens
from transformer_viz.metrics.alignment.error_rate import Gold
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


def test_each_shift_reads_its_own_row() -> None:
    """P33 by hand: the head that looks at what it writes, and the one a row later."""
    trace = across(WRITES, READS)
    found = {
        (head, shift): tv.align(trace, shift, layer=0, head=head)
        for head in (0, 1)
        for shift in SHIFTS
    }
    assert found[0, "out"].pairs == found[1, "in"].pairs == IDENTITY
    gold = Gold(IDENTITY, IDENTITY)
    rates = {key: one.counts(gold).error_rate for key, one in found.items()}
    assert rates == {(0, "out"): 0, (0, "in"): 1, (1, "in"): 0, (1, "out"): 1}
    assert found[0, "out"].pharaoh() == "0-0 1-1 2-2 3-3 4-4\n"
    # of the wrong row the first word looks at the word after it, and the last at the end mark
    assert found[0, "in"].pharaoh() == "1-0 2-1 3-2 4-3\n"
    assert found[1, "out"].pharaoh() == "0-1 1-2 2-3 3-4\n"


def test_pieces_are_added_in_the_source_and_averaged_in_the_target() -> None:
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


def test_a_blank_that_is_a_piece_of_its_own_is_no_part_of_the_word() -> None:
    source = Tokens(
        (4, 5, 6, 3),
        ("▁A", "▁", ".", "</s>"),
        ("A", "␣", ".", "</s>"),
        (0, 1, 1, 2),
        (False, False, False, True),
    )
    assert tv.align(across(np.eye(4)[:3], source=source)).source == ("A", ".")


def test_a_head_that_looks_everywhere_alike_links_nothing() -> None:
    even = np.full((WORDS + 1, WORDS + 1), 1 / (WORDS + 1))
    found = tv.align(across(even))
    assert found.pairs == frozenset()
    assert found.pharaoh() == "\n"
    assert [walk.value for walk in found.walks] == pytest.approx([0.5, 0, 1], abs=EXACT)
    assert [walk.chance for walk in found.walks] == pytest.approx([0.5, 0, 1], abs=EXACT)
    assert found.unread == ()


def test_means_of_heads_and_layers() -> None:
    """The mean of .6 x diagonal and .4 x shifted is as the diagonal; its own layer says so too."""
    trace = across(WRITES, WRITES, READS)
    for found in (tv.align(trace), tv.align(trace, layer=0)):
        assert found.pairs == IDENTITY
        assert np.diag(found.weights) == pytest.approx([2 / 3] * WORDS)
    assert tv.align(trace).card["heads"] == "the mean of all heads"
    assert tv.align(trace, layer=0).card["heads"] == "the mean of the heads of L0"
    assert tv.align(trace, layer=0, head=2).card["heads"] == "cross L0 H2"


def test_words_that_nobody_reads() -> None:
    """All rows on w0 and w1: w2, w3 and w4 got nothing; the others 15/6 of their fair part."""
    even = np.full((WORDS + 1, WORDS + 1), 1 / (WORDS + 1))  # who sees all: no word is masked
    found = tv.align(across(looking([0, 1, 0, 1, 0, 1]), even), layer=0, head=0)
    assert found.unread == (2, 3, 4)
    # six rows on five words: a fair part is 6/5 of a row, and each of the two has 3 rows
    assert found.shares == pytest.approx([2.5, 2.5, 0, 0, 0])
    walk = {one.name: one for one in found.walks}
    assert walk["coverage"].value == pytest.approx(2 / 5)
    assert (walk["coverage"].chance, walk["coverage"].rows) == (1, WORDS)
    assert walk["monotonicity"].rows == 10  # pairs of the five rows that write words


def test_reading_by_the_row_of_the_word_is_the_table_of_heads() -> None:
    """``in`` asks the rows that tv.metrics asks; ``out`` the same rows by what they write."""
    trace = make_trace()
    table = tv.metrics(trace).query("block == 'cross'")
    for row in table.itertuples():
        for walk in tv.align(trace, "in", layer=row.layer, head=row.head).walks:
            assert walk.value == pytest.approx(getattr(row, walk.name), nan_ok=True)
            assert walk.chance == pytest.approx(getattr(row, f"{walk.name}_chance"), nan_ok=True)
            assert walk.rows == getattr(row, f"{walk.name}_rows")


def test_both_sides_asked_and_joined() -> None:
    """Och's heuristics by hand: the rows say 0-0 1-1 1-2, the columns 0-0 1-1 2-3."""
    rows, columns = {(0, 0), (1, 1), (1, 2)}, {(0, 0), (1, 1), (2, 3)}
    assert joined(rows, columns, "intersection") == {(0, 0), (1, 1)}
    assert joined(rows, columns, "union") == {(0, 0), (1, 1), (1, 2), (2, 3)}
    # 1-2 stands beside 1-1 and brings the free word 2; then 2-3 beside 1-2
    assert joined(rows, columns, "grow-diag") == {(0, 0), (1, 1), (1, 2), (2, 3)}
    assert joined({(0, 0), (4, 4)}, {(0, 0)}, "grow-diag") == {(0, 0)}  # 4-4 has no neighbour
    # a link between words that have one each already is not added
    assert joined({(0, 0), (1, 1), (1, 0)}, {(0, 0), (1, 1)}, "grow-diag") == {(0, 0), (1, 1)}
    with pytest.raises(ValueError, match="intersection, union, grow-diag; got 'both'"):
        joined(rows, columns, "both")


def test_one_map_asked_by_rows_and_by_columns() -> None:
    """Two target words look at w0 and one at w1: w0 is looked at most by the first alone."""
    rows = np.array([[0.9, 0.1, 0, 0], [0.6, 0.3, 0.1, 0], [0.1, 0.2, 0.7, 0], [0, 0, 0, 1]])
    trace = across(rows)
    assert tv.align(trace).pairs == {(0, 0), (0, 1), (2, 2)}
    # the columns: w0 by t0, w1 by t1, w2 by t2
    assert tv.align(trace, symmetric="intersection").pairs == {(0, 0), (2, 2)}
    assert tv.align(trace, symmetric="union").pairs == {(0, 0), (0, 1), (1, 1), (2, 2)}
    assert tv.align(trace, symmetric="intersection").card["symmetric"] == "intersection"


def test_a_model_of_the_other_direction() -> None:
    one, other = tv.align(across(WRITES)), tv.align(across(looking([0, 1, 2, 3, 3, 5])))
    assert one.beside(other, "intersection") == {(0, 0), (1, 1), (2, 2), (3, 3)}
    assert one.beside(other, "union") == IDENTITY | {(4, 3)}
    short = tv.align(across(np.eye(4)))
    with pytest.raises(ValueError, match="this source has 5 words and this target 5; the other"):
        one.beside(short)


def test_the_card_says_what_was_measured() -> None:
    card = tv.align(across(WRITES)).card
    assert {"model", "model_hash", "sentences", "sentences_hash", "seed", "version", "dtype"} <= {
        *card
    }
    assert (card["rows"], card["shift"], card["heads"]) == (5, "out", "the mean of all heads")
    other = tv.align(across(np.eye(4)))
    assert other.card["sentences_hash"] != card["sentences_hash"]


def test_what_cannot_be_aligned_is_said() -> None:
    trace = make_trace()
    with pytest.raises(ValueError, match='shift is "out" or "in"; got \'both\''):
        tv.align(trace, "both")
    with pytest.raises(ValueError, match="Head 1 of which layer"):
        tv.align(trace, head=1)
    with pytest.raises(LookupError, match="has no layer 7"):
        tv.align(trace, layer=7)
    with pytest.raises(LookupError, match="L0 has no head 9; it has H0 to H2"):
        tv.align(trace, layer=0, head=9)
    with pytest.raises(ValueError, match="symmetric is one of intersection"):
        tv.align(trace, symmetric="yes")
    alone = replace(trace, thumbnails={"encoder": trace.thumbnails["encoder"]})
    with pytest.raises(LookupError, match="reads cross-attention, and this model has none: its m"):
        tv.align(alone)
    with pytest.raises(LookupError, match="were not kept"):
        tv.align(replace(trace, attentions=()))
    no_words = replace(trace, source=replace(trace.source, ids=()))
    with pytest.raises(ValueError, match="joins words, and the source of this run has none"):
        tv.align(no_words)
    uneven = replace(
        trace,
        attentions=tuple(
            replace(a, weights=a.weights[..., : 5 - a.site.layer]) for a in trace.blocks("cross")
        ),
    )
    with pytest.raises(ValueError, match="differ in shape"):
        tv.align(uneven)
    gold = Gold(frozenset(), frozenset({(9, 0)}))
    with pytest.raises(ValueError, match="counted from 1, or the target named first"):
        tv.align(trace).counts(gold)
