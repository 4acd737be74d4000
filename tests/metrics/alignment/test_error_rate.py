"""M16 by hand (P34): four sentences, sure and possible links, end marks, gold from 1."""

from __future__ import annotations

import math
from functools import reduce

import pytest

from tests.support.refusals import refuses
from transformer_viz.metrics.alignment.error_rate import Gold, LinkCounts, counted, gold_of, pharaoh

#: Links found (none for words on the end mark), and the gold of people, counted from 1.
SENTENCES = [
    ({(0, 0), (1, 1)}, "1-1 2p2 3-3"),
    ({(1, 0), (0, 1)}, "1-2"),
    (set(), "1-1"),  # every word looked at the end mark
    ({(2, 0), (0, 1)}, "3-1 1p2"),
]


def test_the_error_rate_of_four_sentences():
    """Summed: 1 + 1 + 0 + 1 right and sure, 2 + 1 + 0 + 2 possible, of 6 found and 5 sure."""
    each = [counted(found, gold_of(line, first=1)) for found, line in SENTENCES]
    assert [tuple(one) for one in each] == [(1, 2, 2, 2), (1, 1, 2, 1), (0, 0, 0, 1), (1, 2, 2, 1)]
    whole = reduce(LinkCounts.plus, each)
    assert tuple(whole) == (3, 5, 6, 5)
    assert whole.error_rate == pytest.approx(1 - 8 / 11)
    # not the mean of the sentences' own rates, .25, 1/3, 1 and 0
    assert [one.error_rate for one in each] == pytest.approx([0.25, 1 / 3, 1, 0])
    assert math.isnan(LinkCounts().error_rate)


def test_gold_of_either_order_and_counting_and_what_is_no_link():
    gold = gold_of("0-1 2p0")
    assert (gold.sure, gold.possible) == ({(0, 1)}, {(0, 1), (2, 0)})
    assert gold_of("1-2 3p1", first=1) == gold
    assert gold_of("1-0 0p2", reverse=True) == gold
    assert gold_of("  ") == Gold(frozenset(), frozenset())
    assert gold.within(3, 2)
    assert not gold.within(2, 2)
    links = {(2, 0), (0, 1), (0, 0)}
    assert pharaoh(links) == "0-0 0-1 2-0"
    assert gold_of(pharaoh(links)).sure == links
    refuses("Sure links are possible too", Gold, frozenset({(0, 0)}), frozenset())
    said = r"3-4 \(sure\) or 3p4 \(possible\), words counted from 1"
    for line in ("1-1 2", "0-1", "a-b", "1:2", "1-"):
        refuses(said, gold_of, line, first=1)
