"""Every plotly picture as a table: the trace's own numbers under their names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from transformer_viz import views
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.residual.norm_statistics import norm_statistic
from transformer_viz.views.charts.as_table import as_table
from transformer_viz.views.charts.curves import Curve, curves
from transformer_viz.views.charts.parameters import parameters


def test_a_map_is_its_cells_under_their_words(clean: Trace) -> None:
    found = as_table(views.head_map(clean, "cross", 1, 2))
    weights = clean.attention("cross", layer=1)[2]
    assert found.shape == weights.shape
    assert np.abs(np.nan_to_num(found.to_numpy()) - weights).max() < 1e-7
    assert tuple(found.columns) == clean.source.labels
    assert clean.produced is not None and tuple(found.index) == clean.produced.labels


def test_norms_are_the_traces_statistic(clean: Trace) -> None:
    sites, values = norm_statistic(clean, "mean", "encoder")
    found = as_table(views.norm_map(clean, "mean", "encoder"))
    assert found.shape == (len(sites), len(clean.source))
    assert np.allclose(found.to_numpy(), values)


def test_curves_are_columns_and_none_stands_twice(clean: Trace) -> None:
    found = as_table(views.stream_length(clean, "encoder", 1))
    assert set(found.columns) == set(clean.source.labels)
    lengths = clean.residuals[clean.residuals["stack"] == "encoder"]
    first = lengths[lengths["token"] == 0]["norm"].to_numpy()
    assert np.allclose(found[clean.source.labels[0]].to_numpy(), first)


def test_a_picture_without_numbers_says_so() -> None:
    with pytest.raises(ValueError, match="no cells and no curves"):
        as_table(go.Figure())


def test_bars_stand_under_their_own_names_and_repeated_names_are_kept_apart() -> None:
    across = go.Figure([go.Bar(x=["a", "b", "a"], y=[1, 2, 3], name="n")])
    down = go.Figure(
        [
            go.Bar(y=["L0", "L1"], x=[4, 5], orientation="h", name="self"),
            go.Bar(y=["L1", "out"], x=[6, 7], orientation="h", name="output"),
        ]
    )
    bare = go.Figure([go.Bar(y=[8, 9])])
    for picture, rows, columns in (
        (across, ["a", "b", "a (2)"], {"n": [1, 2, 3]}),
        (down, ["L0", "L1", "out"], {"self": [4, 5, None], "output": [None, 6, 7]}),
        (bare, ["0", "1"], {"1": [8, 9]}),
    ):
        wanted = pd.DataFrame(columns, index=rows, dtype=float)
        pd.testing.assert_frame_equal(as_table(picture).astype(float), wanted)


def test_curves_over_words_that_repeat_and_differ_in_length_share_a_table() -> None:
    names = ["the", "dog", "the"]
    lines = [Curve("one", [0, 1, 2], [1, 2, 3]), Curve("two", [0, 2], [4, 5])]
    found = as_table(curves(lines, "word", "bits", "", names=names))
    assert list(found["one"]) == [1, 2, 3] and found["two"].dropna().tolist() == [4, 5]


def test_parameters_of_each_layer_are_the_tables_numbers() -> None:
    blocks = pd.DataFrame(
        [("encoder L0", "self", 12), ("encoder L0", "norms", 3), ("output", "output", 7)],
        columns=["place", "block", "parameters"],
    )
    found = as_table(parameters(blocks))
    for place, block, count in blocks.itertuples(index=False):
        assert found.loc[place, block] == count
    assert found.sum().sum() == blocks["parameters"].sum()
