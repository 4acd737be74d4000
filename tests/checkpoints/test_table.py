"""The page of layouts is what was measured, every row is within rounding, and the ruler is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.conftest import make_model
from transformer_viz.checkpoints import loader

from .rows import ATTENTION, LOGITS, Row, compared, worst
from .table import PAGE, collect, figure, page, stale


def test_the_page_holds_the_rows_that_are_measured():
    assert not stale(PAGE.read_text(encoding="utf-8"), collect())


def test_every_row_is_within_rounding():
    assert not [row for row in collect() if not row.passed]


def test_every_layout_has_a_row():
    measured = {row.layout for row in collect()}
    assert {layout.NAME for layout in loader.layouts} - {"transformer_viz"} <= measured


ROW = Row("a", "b", 1e-6, 1e-5, "c")


def test_a_page_that_lacks_a_row_or_tells_another_verdict_is_stale():
    rows = [ROW, replace(ROW, variant="d")]
    assert not stale(page(rows), rows)
    assert not stale(page(rows), [replace(ROW, attention=3e-7), rows[1]])
    for other in (
        rows[:1],
        [ROW, replace(ROW, variant="e")],
        [ROW, replace(rows[1], layout="z")],
        [ROW, replace(rows[1], witness="z")],
        [ROW, replace(rows[1], logits=1.0)],
        rows[::-1],
    ):
        assert stale(page(rows), other)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "≤ 1e-7"),
        (9e-8, "≤ 1e-7"),
        (2e-7, "≤ 1e-6"),
        (1e-6, "≤ 1e-6"),
        (3.0, "≤ 1e1"),
        (float("nan"), "not a number"),
    ],
)
def test_figures_are_rounded_up(value, text):
    assert figure(value) == text


def test_what_is_no_number_never_passes():
    assert replace(ROW, attention=ATTENTION, logits=LOGITS).passed
    assert not replace(ROW, attention=ATTENTION * 1.01).passed
    assert not replace(ROW, logits=float("nan")).passed


def test_the_ruler_sees_one_wrong_number_and_one_wrong_place():
    a = np.array([[1.0, np.nan], [3.0, 4.0]])
    assert worst(a, a) == 0
    assert worst(a, a + np.array([[0, 0], [0.25, -0.5]])) == 0.5
    assert worst(a, np.nan_to_num(a)) == float("inf")
    model = make_model()
    ids = torch.tensor([[4, 5, 6]])
    with pytest.raises(AssertionError, match="another number of attentions"):
        compared(model, (ids, ids), [], torch.zeros(1, 3, 41))
