"""Files and notebook pictures of runs with tiles: the matrix's own numbers, or what to do."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import transformer_viz as tv
from tests.conftest import make_model
from tests.views.test_file_formats import scene
from transformer_viz.app.cards import downloads
from transformer_viz.core.trace import Trace
from transformer_viz.views.export.file_formats import exported

TOKENS = 1031
PLACE = ("decoder", 1, 0)


@pytest.fixture(scope="module")
def runs() -> tuple[Trace, Trace]:
    """The same run with tiles and with matrices."""
    model = make_model(
        encoder_layers=0, decoder_layers=2, source_vocab=0, target_vocab=31, heads=2,
        max_positions=TOKENS,
    )  # fmt: skip
    ids = np.random.default_rng(0).integers(4, 31, TOKENS).tolist()
    tiled, whole = (
        tv.trace(model, ids, keep=(keep,), check=False) for keep in ("tiles", "weights")
    )
    return tiled, whole


def test_numbers_of_a_part_are_the_matrix_s(runs: tuple[Trace, Trace]) -> None:
    tiled, whole = runs
    weights = whole.attention("decoder", 1)[0]
    part: dict[str, Any] = {"rows": slice(1000, 1004), "columns": slice(998, 1006)}
    table = pd.read_csv(io.BytesIO(exported(tiled, "csv", "map", PLACE, **part)))
    assert table["query"].tolist() == [row for row in range(1000, 1004) for _ in range(8)]
    assert table["key"].tolist() == [*range(998, 1006)] * 4
    wanted = weights[1000:1004, 998:1006]
    assert np.abs(table["weight"].to_numpy().reshape(4, 8) - wanted).max() <= 2e-6
    assert np.array_equal(table["masked"] == 1, table["key"] > table["query"])
    assert table["to"][1] == tiled.source.labels[999]
    found = np.load(io.BytesIO(exported(tiled, "npz", "map", PLACE, **part)))
    assert np.abs(found["weights"] - wanted).max() <= 2e-6
    assert json.loads(str(found["manifest"]))["queries"] == [1000, 1004]
    same = exported(whole, "npz", "map", PLACE, **part)  # of a run with matrices too
    assert np.array_equal(np.load(io.BytesIO(same))["weights"], wanted)


def test_a_chart_shows_the_largest_weight_of_each_cell(runs: tuple[Trace, Trace]) -> None:
    tiled, whole = runs
    weights = whole.attention("decoder", 1)[0]
    step = 5  # of 1,031 tokens in at most 256 cells
    edges = np.arange(0, TOKENS, step)
    wanted = np.maximum.reduceat(np.maximum.reduceat(weights, edges, axis=0), edges, axis=1)
    figure = tv.views.head_map(tiled, *PLACE)
    (heatmap,) = (one for one in figure.data if one.type == "heatmap")
    shown = np.asarray(heatmap.z)
    assert shown.shape == wanted.shape == (207, 207)
    assert np.nanmax(np.abs(shown - wanted)) <= 2e-6
    assert np.array_equal(np.isnan(shown), wanted == 0)  # masked, by the causal mask
    assert "the largest of up to 5 × 5 weights" in str(figure.layout.meta or figure.to_json())


def test_too_many_numbers_and_what_needs_a_matrix_say_so(runs: tuple[Trace, Trace]) -> None:
    tiled, _ = runs
    too_many = "1,062,961 weights; such a file holds at most 1,048,576. Take a part"
    outside = {"rows": slice(0, 1032), "columns": slice(0, 3)}
    merged = {"rows": slice(0, 3), "words": True}
    lines = "Lines are drawn of texts of up to 1,024 tokens"
    for draw, why in (
        (lambda: exported(tiled, "csv", "map", PLACE), too_many),
        (lambda: exported(tiled, "csv", "map", PLACE, **outside), "The map has 1,031 rows"),
        (lambda: exported(tiled, "npz", "map", PLACE, **merged), "counted in the model's own tok"),
        (lambda: tv.views.lines(tiled, "decoder", [(1, 0)]), lines),
        (lambda: tv.views.printed(tiled, "lines", "svg", *PLACE), lines),
        (lambda: tv.views.head_map(tiled, *PLACE, before=tiled), "draw each run by itself"),
    ):
        with pytest.raises(ValueError, match=why):
            draw()


def test_buttons_and_notebooks_of_a_long_text_hold_what_the_library_makes(
    runs: tuple[Trace, Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiled, _ = runs
    picture = tv.views.atlas(tiled)
    assert picture.html.count("tv-part-") >= 4 and "4 heads" in picture.caption
    seen = scene(tiled, monkeypatch, zoom=((3, 9), (0, 7)))
    seen.is_long, seen.place.map_name = True, "decoder"
    place = ("decoder", 1, 0)
    part = {"rows": slice(3, 9), "columns": slice(0, 7)}
    assert downloads.maker(seen, "csv", "part")() == exported(tiled, "csv", "map", place, **part)
    assert downloads.maker(seen, "html", "report")() == exported(tiled, "html", "map", place)
    assert downloads.file_name(seen, "csv", "part").endswith("decoder-L1-H0-part.csv")
    monkeypatch.setattr(downloads, "LONG", 5)
    assert downloads.in_view(seen) is None
