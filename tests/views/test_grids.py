"""Grids of heads, bars and curves: numbers, names and colours; their tables; CSV text."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from transformer_viz import views
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.residual.norm_statistics import norm_statistic
from transformer_viz.views import curves
from transformer_viz.views.charts.as_table import as_table
from transformer_viz.views.charts.curves import Curve
from transformer_viz.views.charts.parameters import BLOCKS, parameters
from transformer_viz.views.charts.theme import escaped
from transformer_viz.views.csv_text import csv_text

GRID = np.array([[0.25, -0.5, 1.5], [np.nan, 1.0, 0.0]])
HEADS = ["H0", "H1", "H2"]


def outline(picture: go.Figure) -> tuple[float, float]:
    """The place of the one outlined cell."""
    (shape,) = picture.layout.shapes
    return (shape.x0 + shape.x1) / 2, (shape.y0 + shape.y1) / 2


def test_each_grid_has_its_numbers_names_clicks_and_colours() -> None:
    measure = np.abs(GRID) / 3
    for picture, values, ends, alt in (
        (views.head_cost(GRID), GRID, (-1.5, 1.5), "−1.5 to 1.5"),
        (views.swap_grid(GRID, HEADS), GRID, (-1, 1), "−1 to 1"),
        (views.measure_grid(measure, 0.5), measure, (0, 0.5), "from 0 to 0.50"),
        (views.measure_grid(GRID, 0.5), GRID, (-0.5, 0.5), ""),
    ):
        heatmap = next(trace for trace in picture.data if trace.type == "heatmap")
        assert np.array_equal(heatmap.z, values, equal_nan=True), alt
        assert (heatmap.zmin, heatmap.zmax) == ends, alt
        assert ends[0] == 0 or heatmap.colorscale[2] == (0.5, LIGHT.changes[2]), alt
        assert alt in picture.layout.meta["alt"]
        table = as_table(picture)
        assert list(table.columns) == HEADS and list(table.index) == ["L0", "L1"]
        assert table.loc["L0", "H1"] == values[0, 1]


def test_grids_outline_the_chosen_and_leave_many_unwritten() -> None:
    swaps = views.swap_grid(GRID, ["a", "b", "c"], ["behind L0", "behind L1"], kept=[(1, 2)])
    assert outline(swaps) == (2, 1) and list(as_table(swaps).index) == ["behind L0", "behind L1"]
    places = swaps.data[-1].customdata[:, :2].tolist()
    assert places == [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2]]
    measured = views.measure_grid(GRID, 0.5, chosen=(1, 2))
    assert outline(measured) == (2, 1)
    clicks = measured.data[-1].customdata
    assert clicks[3].tolist() == [1, 0, 0] and len(clicks) == 6
    dark = views.swap_grid(GRID / 100, ["a", "b", "c"], dark=True).data[-2]
    assert (dark.zmin, dark.zmax) == (-1, 1)  # whatever is shown
    assert dark.colorscale[2] == (0.5, DARK.changes[2])
    many = np.zeros((2, 13))
    shared = views.head_cost(many, 7.0).data[-1]
    assert shared.zmax == 7 and shared.texttemplate is None
    assert views.swap_grid(many, ["w"] * 13).data[-2].texttemplate is None
    assert views.head_cost(np.zeros((2, 3))).data[-1].zmax == 1
    assert views.measure_grid(many, 0.0).data[-2].zmax == 1
    assert views.head_cost(GRID, caption="bits < lost").layout.meta["alt"] == "bits < lost"


def test_counts_and_curves_hold_their_numbers() -> None:
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
    # Curves hold their numbers names and axes.
    picture = curves(LINES, "d_k", "variance", "what it is", log="xy")
    drawn = {line.name: line for line in picture.data if line.name}
    assert list(drawn["measured &lt;1&gt;"].y) == [3.9, 8.3, 15.7]
    assert drawn["theory"].line.dash == "dash" and drawn["heads"].mode == "markers"
    (mark,) = (line for line in picture.data if not line.name)
    assert (list(mark.x), list(mark.y)) == ([8], [8.3])
    low, high = picture.layout.yaxis.range
    assert low < np.log10(2.5) and np.log10(40) < high
    assert list(picture.layout.xaxis.tickvals) == [4, 8, 16]
    rows = as_table(curves(LINES[:2], "d_k", "variance", "what it is"))
    assert list(rows["theory"]) == [4, 8, 16] and list(rows.index) == ["4", "8", "16"]
    lines = [Curve("length", range(2), (1.0, 2.0))]
    picture = curves(lines, "", "length", "what it is", names=("<s>", "cat"), least=0)
    assert list(picture.layout.xaxis.ticktext) == ["&lt;s&gt;", "cat"]
    assert picture.layout.yaxis.range[0] == 0 and not picture.layout.showlegend
    assert list(as_table(picture).index) == ["<s>", "cat"]


LINES = [
    Curve("measured <1>", (4, 8, 16), (3.9, 8.3, 15.7), marked=1),
    Curve("theory", (4, 8, 16), (4, 8, 16), dashed=True),
    Curve("heads", (8, 8), (2.5, 40.0), bare=True),
]


PARAMETERS = pd.DataFrame(
    [
        ("embedding", "embedding", 700),
        ("encoder L0", "self", 200),
        ("encoder L0", "feed-forward", 80),
        ("encoder L1", "self", 15),
        ("output", "output", 5),
    ],
    columns=["place", "block", "parameters"],
)


def test_parameters_are_bars_of_coloured_blocks() -> None:
    for dark, palette in ((False, LIGHT), (True, DARK)):
        picture = parameters(PARAMETERS, dark=dark)
        shown = {
            (place, bars.name, count)
            for bars in picture.data
            for place, count in zip(bars.y, bars.x, strict=True)
        }
        assert shown == set(PARAMETERS.itertuples(index=False, name=None))
        places = ("embedding", "encoder L0", "encoder L1", "output")
        assert picture.layout.yaxis.categoryarray == places
        blocks = set(PARAMETERS["block"])
        assert [bars.name for bars in picture.data] == [b for b in BLOCKS if b in blocks]
        assert palette.accent in [bars.marker.color for bars in picture.data]
    meta = picture.layout.meta
    shares = "1,000 parameters: embedding 70%, self 22%, feed-forward 8%, output 0%"
    assert meta["alt"].startswith(shares) and meta["caption"] == escaped(meta["alt"])
    found = as_table(picture)
    for place, block, count in PARAMETERS.itertuples(index=False):
        assert found.loc[place, block] == count
    assert found.sum().sum() == 1000
    longer = pd.concat([PARAMETERS, *(PARAMETERS.assign(place=f"decoder L{n}") for n in range(5))])
    assert parameters(longer).layout.height > picture.layout.height
    empty = parameters(PARAMETERS.iloc[:0])
    assert not empty.data and "0 parameters" in empty.layout.meta["alt"]
    every = pd.DataFrame({"place": BLOCKS, "block": BLOCKS, "parameters": range(1, 8)})
    assert len({bars.marker.color for bars in parameters(every).data}) == len(BLOCKS)


def test_pictures_become_tables_of_the_traces_numbers(clean: Trace) -> None:
    found = as_table(views.head_map(clean, "cross", 1, 2))
    weights = clean.attention("cross", layer=1)[2]
    assert found.shape == weights.shape
    assert np.abs(np.nan_to_num(found.to_numpy()) - weights).max() < 1e-7
    assert tuple(found.columns) == clean.source.labels
    assert clean.produced is not None and tuple(found.index) == clean.produced.labels
    sites, values = norm_statistic(clean, "mean", "encoder")
    found = as_table(views.norm_map(clean, "mean", "encoder"))
    assert found.shape == (len(sites), len(clean.source)) and np.allclose(found.to_numpy(), values)
    found = as_table(views.stream_length(clean, "encoder", 1))  # no word stands twice
    assert set(found.columns) == set(clean.source.labels)
    lengths = clean.residuals[clean.residuals["stack"] == "encoder"]
    first = lengths[lengths["token"] == 0]["norm"].to_numpy()
    assert np.allclose(found[clean.source.labels[0]].to_numpy(), first)


def test_bars_and_curves_with_repeated_names_become_tables() -> None:
    down = [
        go.Bar(y=["L0", "L1"], x=[4, 5], orientation="h", name="self"),
        go.Bar(y=["L1", "out"], x=[6, 7], orientation="h", name="output"),
    ]
    for bars, rows, columns in (
        ([go.Bar(x=["a", "b", "a"], y=[1, 2, 3], name="n")], ["a", "b", "a (2)"], {"n": [1, 2, 3]}),
        (down, ["L0", "L1", "out"], {"self": [4, 5, None], "output": [None, 6, 7]}),
        ([go.Bar(y=[8, 9])], ["0", "1"], {"1": [8, 9]}),
    ):
        wanted = pd.DataFrame(columns, index=rows, dtype=float)
        pd.testing.assert_frame_equal(as_table(go.Figure(bars)).astype(float), wanted)
    lines = [Curve("one", [0, 1, 2], [1, 2, 3]), Curve("two", [0, 2], [4, 5])]
    found = as_table(curves(lines, "word", "bits", "", names=["the", "dog", "the"]))
    assert list(found["one"]) == [1, 2, 3] and found["two"].dropna().tolist() == [4, 5]


def test_what_cannot_be_drawn_is_refused() -> None:
    one, edges = Curve("one", (1,), (1,)), np.array([0, 0.25, 0.5])
    for draw, said in (
        (lambda: views.head_cost(np.zeros(3)), r"\[layer, head\]; got shape \(3,\)"),
        (lambda: views.head_cost(np.full((1, 2), np.nan)), "layer, head"),
        (lambda: views.swap_grid(GRID, ["a", "b"]), r"for 2 columns; got shape \(2, 3\)"),
        (lambda: views.measure_grid(np.zeros(3), 1.0), r"is \[layer, head\]; got shape \(3,\)"),
        (
            lambda: views.sentence_counts(np.array([3, 0, 5]), edges, mean=0, chance=0),
            "3 bins have 4 edges; got 3",
        ),
        (lambda: curves([], "", "", ""), "1 to 8 curves; got 0"),
        (lambda: curves([one] * 9, "", "", ""), "1 to 8 curves; got 9"),
        (lambda: curves([Curve("one", (1, 2), (1,))], "", "", ""), "2 places and 1 values"),
        (lambda: as_table(go.Figure()), "no cells and no curves"),
    ):
        with pytest.raises(ValueError, match=said):
            draw()


def test_csv_text_has_no_formulas_and_every_number() -> None:
    for word in (
        *("=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"),
        '=HYPERLINK("http://evil.example","x")',
    ):
        table = pd.DataFrame({"from": [word, "the"], word: [1.0, 2.0]})
        back = pd.read_csv(io.StringIO(csv_text(table)), dtype=str, keep_default_na=False)
        inert = "'" + word.replace("\r", " ")
        assert back["from"].tolist() == [inert, "the"] and back.columns[1] == inert, word
    weights = np.float32([0.1, -2, 3e-9, 1, np.nan])
    table = pd.DataFrame({"word": ["-", "=", "--1", "-1.5", "it's"], "weight": weights})
    back = pd.read_csv(io.StringIO(csv_text(table)), dtype={"word": str, "weight": np.float32})
    assert back["word"].tolist() == ["-", "=", "'--1", "-1.5", "it's"]
    np.testing.assert_array_equal(back["weight"], table["weight"])
