"""Curves of whatever was measured: their numbers, names and axes."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz.views import curves
from transformer_viz.views.charts.as_table import as_table
from transformer_viz.views.charts.curves import Curve

LINES = [
    Curve("measured <1>", (4, 8, 16), (3.9, 8.3, 15.7), marked=1),
    Curve("theory", (4, 8, 16), (4, 8, 16), dashed=True),
    Curve("heads", (8, 8), (2.5, 40.0), bare=True),
]


def test_a_figure_holds_the_numbers_and_a_table_of_them() -> None:
    picture = curves(LINES, "d_k", "variance", "what it is", log="xy")
    drawn = {line.name: line for line in picture.data if line.name}
    assert list(drawn["measured &lt;1&gt;"].y) == [3.9, 8.3, 15.7]
    assert drawn["theory"].line.dash == "dash" and drawn["heads"].mode == "markers"
    (mark,) = (line for line in picture.data if not line.name)
    assert (list(mark.x), list(mark.y)) == ([8], [8.3])
    rows = as_table(curves(LINES[:2], "d_k", "variance", "what it is"))
    assert list(rows["theory"]) == [4, 8, 16] and list(rows.index) == ["4", "8", "16"]


def test_axes_with_equal_factors_hold_every_number() -> None:
    picture = curves(LINES, "d_k", "variance", "what it is", log="xy")
    low, high = picture.layout.yaxis.range
    assert low < np.log10(2.5) and np.log10(40) < high
    assert list(picture.layout.xaxis.tickvals) == [4, 8, 16]


def test_names_stand_along_the_axis() -> None:
    lines = [Curve("length", range(2), (1.0, 2.0))]
    picture = curves(lines, "", "length", "what it is", names=("<s>", "cat"), least=0)
    assert list(picture.layout.xaxis.ticktext) == ["&lt;s&gt;", "cat"]
    assert picture.layout.yaxis.range[0] == 0 and not picture.layout.showlegend
    assert list(as_table(picture).index) == ["<s>", "cat"]


@pytest.mark.parametrize("count", [0, 9])
def test_more_curves_than_colours_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 8 curves; got {count}"):
        curves([Curve("one", (1,), (1,))] * count, "", "", "")


def test_a_curve_of_two_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="2 places and 1 values"):
        curves([Curve("one", (1, 2), (1,))], "", "", "")
