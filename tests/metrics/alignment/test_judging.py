"""Every map against gold at once, by asking `tv.align` for each."""

from __future__ import annotations

import pandas as pd
import pytest

import transformer_viz as tv
from transformer_viz.metrics.alignment.error_rate import Gold
from transformer_viz.metrics.alignment.judging import judged_table, places

from .test_alignment import IDENTITY, READS, WRITES, across


def test_each_map_has_the_error_that_its_own_alignment_has() -> None:
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
