"""What the text costs without each head: the numbers, the names, the colours."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz import views
from transformer_viz.core.palette import LIGHT
from transformer_viz.views.charts.as_table import as_table

BITS = np.array([[0.5, -2.0, 4.0], [np.nan, 1.0, 0.0]])


def test_each_head_has_its_number_and_its_name() -> None:
    picture = views.head_cost(BITS)
    heatmap = next(trace for trace in picture.data if trace.type == "heatmap")
    assert np.array_equal(heatmap.z, BITS, equal_nan=True)
    assert (heatmap.zmin, heatmap.zmax) == (-4, 4) and "−4 to 4" in picture.layout.meta["alt"]
    assert heatmap.colorscale[2] == (0.5, LIGHT.changes[2])
    table = as_table(picture)
    assert list(table.columns) == ["H0", "H1", "H2"] and list(table.index) == ["L0", "L1"]
    assert table.loc["L0", "H1"] == -2


def test_several_blocks_can_share_their_colours_and_many_heads_stay_unwritten() -> None:
    heatmap = views.head_cost(np.zeros((2, 13)), 7.0).data[-1]
    assert heatmap.zmax == 7 and heatmap.texttemplate is None
    assert views.head_cost(np.zeros((2, 3))).data[-1].zmax == 1


def test_a_caption_of_one_s_own_takes_the_place_of_the_usual_one() -> None:
    assert views.head_cost(BITS, caption="bits < lost").layout.meta["alt"] == "bits < lost"


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[layer, head\]; got shape \(3,\)"):
        views.head_cost(np.zeros(3))
    with pytest.raises(ValueError, match="layer, head"):
        views.head_cost(np.full((1, 2), np.nan))
