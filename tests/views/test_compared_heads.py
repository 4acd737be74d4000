"""Pictures of a comparison: their numbers, one scale for all, what a click gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import transformer_viz as tv
from transformer_viz import views
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, ScaleHead
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.metrics.comparison.comparing import Comparison
from transformer_viz.views.charts.as_table import as_table

IDS = [5, 17, 6, 29, 8, 3, 11]
OFF = Intervention((ScaleHead(value=0, stack="encoder", layer=1, head=1),))


@pytest.fixture(scope="module")
def found(build_model: Callable[..., Model]) -> Comparison:
    return tv.compare(None, OFF, IDS, model=build_model())


def test_the_table_and_every_tile_hold_their_heads_difference(found: Comparison) -> None:
    table = as_table(views.compared_atlas(found, "encoder"))
    assert list(table.columns) == ["H0", "H1"] and list(table.index) == ["L0", "L1", "L2"]
    heads = found.heads.query("stack == 'encoder'").set_index(["layer", "head"])["divergence"]
    for (layer, head), bits in heads.items():
        assert table.loc[f"L{layer}", f"H{head}"] == bits
    assert table.loc["L1", "H1"] == 1
    picture = views.compared_atlas(found, "encoder", opened=(1, 1))
    canvas = next(t for t in picture.data if t.type == "heatmap" and t.visible is None)
    limit = max(
        float(np.abs(found.maps(one.name, *own).difference).max())
        for one in found.shared
        for own in found.pairs(one.name)
    )
    assert (canvas.zmin, canvas.zmax) == (-limit, limit) and limit == 1
    clicks = picture.data[-1]
    assert clicks.customdata[:, :2].tolist() == [[a, b] for a in range(3) for b in range(2)]
    for x, y, (layer, head, bits) in zip(clicks.x, clicks.y, clicks.customdata, strict=True):
        wanted = found.maps("encoder", int(layer), int(head)).difference
        top, left = int(y - (len(wanted) - 1) / 2), int(x - (wanted.shape[1] - 1) / 2)
        tile = canvas.z[top : top + len(wanted), left : left + wanted.shape[1]]
        assert np.array_equal(tile, wanted.astype(np.float32))
        assert bits == pytest.approx(found.divergence("encoder", (int(layer), int(head))))
    thick = [shape for shape in picture.layout.shapes if shape.line.width == 3]
    assert len(thick) == 1 and len(picture.layout.shapes) == 6
    texts = next(t for t in picture.data if t.type == "scatter" and t.mode == "text").text
    assert texts[3] == "1.00"


def test_the_head_on_both_sides_and_what_changed(found: Comparison) -> None:
    maps = found.maps("encoder", 1, 1)
    looks = itertools.product(("a", "b", "difference"), ((False, LIGHT), (True, DARK)))
    for which, (dark, colours) in looks:
        picture = views.compared_map(maps, which, limit=0.5, dark=dark)
        heatmap = picture.data[-1]
        assert np.array_equal(heatmap.z, getattr(maps, which).astype(np.float32))
        assert heatmap.zmax == 0.5 and heatmap.zmin == (-0.5 if which == "difference" else 0)
        ramp = colours.changes if which == "difference" else colours.amounts
        assert heatmap.colorscale[-1][1] == ramp[-1]
        table = as_table(picture)
        assert list(table.columns) == [*maps.columns[:-1], "elsewhere"]
        assert list(table.index) == list(maps.rows)
    with pytest.raises(ValueError, match="no side 'c'; choose of a, b, difference"):
        views.compared_map(maps, "c")


def test_a_large_map_shows_its_largest_changes(
    build_model: Callable[..., Model], tiny_gpt: Model
) -> None:
    models = [build_model(decoder_layers=0, norm=norm) for norm in ("pre", "post")]
    found = tv.compare(*models, list(range(4, 37)))
    picture = views.compared_atlas(found, "encoder", matched=True)
    canvas = next(t for t in picture.data if t.type == "heatmap" and t.visible is None).z
    known = canvas[np.isfinite(canvas)]
    assert known.size == 6 * 16 * 16
    pairs = found.pairs("encoder", matched=True)
    largest = max(
        np.abs(found.maps("encoder", *own, other).difference).max() for own, other in pairs.items()
    )
    assert np.abs(known).max() == pytest.approx(largest)
    assert "the one that changed most" in picture.layout.meta["alt"]
    alone = tv.compare(tiny_gpt, tiny_gpt, IDS)
    with pytest.raises(LookupError, match="no map 'cross' in common; they share decoder"):
        views.compared_atlas(alone, "cross")
