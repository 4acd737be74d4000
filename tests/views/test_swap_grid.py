"""The grid of swaps: its numbers, its honest colours, what a click gives."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz import views
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.views.charts.as_table import as_table

MOVED = np.array([[0.25, -0.5, 1.5], [np.nan, 1.0, 0.0]])


def test_each_swap_has_its_number_and_its_name() -> None:
    picture = views.swap_grid(MOVED, ["H0", "H1", "H2"])
    heatmap, clicks = picture.data[-2:]
    assert np.array_equal(heatmap.z, MOVED, equal_nan=True)
    table = as_table(picture)
    assert list(table.columns) == ["H0", "H1", "H2"] and list(table.index) == ["L0", "L1"]
    assert table.loc["L0", "H2"] == 1.5
    assert clicks.customdata[:, :2].tolist() == [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2]]


@pytest.mark.parametrize(("dark", "colours"), [(False, LIGHT), (True, DARK)])
def test_colours_are_the_same_whatever_is_shown(dark: bool, colours: object) -> None:
    for values in (MOVED, MOVED / 100):
        heatmap = views.swap_grid(values, ["a", "b", "c"], dark=dark).data[-2]
        assert (heatmap.zmin, heatmap.zmax) == (-1, 1)
        assert heatmap.colorscale[2] == (0.5, colours.changes[2])  # type: ignore[attr-defined]
    assert "−1 to 1" in views.swap_grid(MOVED, ["a", "b", "c"]).layout.meta["alt"]


def test_kept_swaps_are_outlined_and_many_stay_unwritten() -> None:
    picture = views.swap_grid(MOVED, ["a", "b", "c"], ["behind L0", "behind L1"], kept=[(1, 2)])
    (shape,) = picture.layout.shapes
    assert (shape.x0 + shape.x1) / 2 == 2 and (shape.y0 + shape.y1) / 2 == 1
    assert views.swap_grid(np.zeros((2, 13)), ["w"] * 13).data[-2].texttemplate is None
    assert list(as_table(picture).index) == ["behind L0", "behind L1"]


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"for 2 columns; got shape \(2, 3\)"):
        views.swap_grid(MOVED, ["a", "b"])
