"""The pictures of Corpus: heads by a measure, and sentences by their own mean."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz import views
from transformer_viz.core.palette import LIGHT
from transformer_viz.views.charts.as_table import as_table

VALUES = np.array([[0.25, 0.5, 0.125], [np.nan, 0.0, 0.0625]])


def test_each_head_has_its_number_and_a_click_its_place() -> None:
    picture = views.measure_grid(VALUES, 0.5, chosen=(1, 2))
    heatmap, clicks = picture.data[-2:]
    assert np.array_equal(heatmap.z, VALUES, equal_nan=True)
    assert (heatmap.zmin, heatmap.zmax) == (0, 0.5)
    assert as_table(picture).loc["L0", "H1"] == 0.5
    assert clicks.customdata[3].tolist() == [1, 0, 0] and len(clicks.customdata) == 6
    (shape,) = picture.layout.shapes
    assert (shape.x0 + shape.x1) / 2 == 2 and (shape.y0 + shape.y1) / 2 == 1
    assert "from 0 to 0.50" in picture.layout.meta["alt"]


def test_what_is_below_0_has_the_colours_of_changes() -> None:
    heatmap = views.measure_grid(VALUES - 0.2, 0.5).data[-2]
    assert (heatmap.zmin, heatmap.zmax) == (-0.5, 0.5)
    assert heatmap.colorscale[2] == (0.5, LIGHT.changes[2])
    assert views.measure_grid(np.zeros((1, 13)), 0.0).data[-2].zmax == 1
    with pytest.raises(ValueError, match=r"is \[layer, head\]; got shape \(3,\)"):
        views.measure_grid(np.zeros(3), 1.0)


def test_counts_stand_over_their_bins_with_mean_and_chance() -> None:
    counts, edges = np.array([3, 0, 5]), np.array([0, 0.25, 0.5, 1.0])
    picture = views.sentence_counts(counts, edges, mean=0.4, chance=0.2)
    (bars,) = picture.data
    assert bars.y.tolist() == [3, 0, 5] and bars.x.tolist() == [0.125, 0.375, 0.75]
    assert bars.width.tolist() == [0.25, 0.25, 0.5]
    assert [shape.x0 for shape in picture.layout.shapes] == [0.4, 0.2]
    assert "8 sentences" in picture.layout.meta["alt"] and "0.200" in picture.layout.meta["alt"]
    assert as_table(picture).to_numpy()[:, -1].tolist() == [3, 0, 5]
    unknown = views.sentence_counts(counts, edges, mean=np.nan, chance=np.nan)
    assert not unknown.layout.shapes and "(–)" in unknown.layout.meta["alt"]
    with pytest.raises(ValueError, match="3 bins have 4 edges; got 3"):
        views.sentence_counts(counts, edges[:3], mean=0, chance=0)
