"""Every plotly picture as a table: the trace's own numbers under their names."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer_viz import views
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.residual.norm_statistics import norm_statistic
from transformer_viz.views.charts.as_table import as_table


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
