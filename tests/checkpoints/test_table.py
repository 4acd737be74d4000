"""The table of checkpoints is what was measured, within rounding, and the ruler is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import make_model
from tests.support.measured_tables import read_table
from transformer_viz.checkpoints import loader

from .rows import ATTENTION, LOGITS, Row, compared, worst
from .table import COLUMNS, TABLE, cells, collect, figure, stale


@pytest.mark.slow
def test_the_table_holds_a_row_within_rounding_for_every_layout():
    rows = collect()
    assert not stale(read_table(TABLE), rows)
    assert not [row for row in rows if not row.passed]
    layouts = {layout.NAME for layout in loader.layouts}
    assert layouts - {"transformer_viz"} <= {row.layout for row in rows}


ROW = Row("a", "b", 1e-6, 1e-5, "c")


def test_a_table_that_lacks_a_row_or_has_another_verdict_is_stale():
    rows = [ROW, replace(ROW, variant="d")]
    table = [cells(row) for row in rows]
    assert tuple(table[0]) == COLUMNS
    assert not stale(table, rows)
    assert not stale(table, [replace(ROW, attention=3e-7), rows[1]])
    for changed in ({"variant": "e"}, {"layout": "z"}, {"witness": "z"}, {"logits": 1.0}):
        assert stale(table, [ROW, replace(rows[1], **changed)]), changed
    assert stale(table, rows[:1]) and stale(table, rows[::-1])


def test_the_ruler_is_true():
    for value, text in (
        (0.0, "1e-7"),
        (9e-8, "1e-7"),
        (2e-7, "1e-6"),
        (1e-6, "1e-6"),
        (3.0, "1e1"),
    ):
        assert figure(value) == f"≤ {text}", value
    assert figure(float("nan")) == "not a number"
    assert replace(ROW, attention=ATTENTION, logits=LOGITS).passed
    assert not replace(ROW, attention=ATTENTION * 1.01).passed
    assert not replace(ROW, logits=float("nan")).passed
    a = np.array([[1.0, np.nan], [3.0, 4.0]])
    assert worst(a, a) == 0
    assert worst(a, a + np.array([[0, 0], [0.25, -0.5]])) == 0.5
    assert worst(a, np.nan_to_num(a)) == float("inf")
    ids = torch.tensor([[4, 5, 6]])
    with pytest.raises(AssertionError, match="another number of attentions"):
        compared(make_model(), (ids, ids), [], torch.zeros(1, 3, 41))
