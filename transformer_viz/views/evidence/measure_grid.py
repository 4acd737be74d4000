"""Grid of one measure: every head of a block as a cell, layers down, heads across."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import say
from ..charts.head_map import CLICKS
from ..charts.matrix_axes import OVERLAY, clickable, name_axes
from ..charts.theme import captioned, figure, scale

ROW = 40  # pixels of a layer
WRITTEN = 12  # heads up to which numbers are written into their cells


def measure_grid(
    values: np.ndarray,
    whole: float,
    *,
    chosen: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw the heads of one block by one measure: 0 is the background, ``whole`` the full colour.

    A click gives ``[layer, head, value]``; a head without a value stays empty. If any value is
    below 0, the colours are symmetric around 0.

    Args:
        values: ``[layer, head]``, NaN where the measure applies to no row.
        whole: The number at which the colours end.
        chosen: Layer and head of the cell to outline.
        dark: Use colours for a dark background.

    Raises:
        ValueError: Not two axes.
    """
    if values.ndim != 2:
        raise ValueError(f"A grid of heads is [layer, head]; got shape {values.shape}.")
    picture, colours = figure(dark), palette(dark)
    layers, heads = values.shape
    name_axes(picture, [f"L{n}" for n in range(layers)], [f"H{n}" for n in range(heads)])
    picture.update_layout(height=layers * ROW + picture.layout.margin.t + 8, margin={"l": 44})
    if heads <= WRITTEN:
        picture.update_layout(xaxis={"tickangle": 0})
    signed = bool((np.nan_to_num(values) < 0).any())
    whole = whole if whole > 0 else 1.0
    picture.add_trace(
        go.Heatmap(
            z=values,
            zmin=-whole if signed else 0.0,
            zmax=whole,
            colorscale=scale(colours.changes if signed else colours.amounts),
            showscale=False,
            hoverongaps=False,
            xgap=2,
            ygap=2,
            texttemplate="%{z:.2f}" if heads <= WRITTEN else None,
            textfont={"size": 14},
            hovertemplate="%{y} %{x}: %{z:.3f}<extra></extra>",
            **OVERLAY,
        )
    )
    if values.size <= CLICKS:
        layer, head = np.indices(values.shape).reshape(2, -1)
        known = np.nan_to_num(values, nan=0.0)
        data = np.stack([layer, head, known[layer, head]], axis=1).astype(np.float32)
        hover = "%{y} %{x}: %{customdata[2]:.3f}"
        picture.add_trace(clickable(head, layer, data, 0.8 * ROW, hover, **OVERLAY))
    if chosen is not None:
        row, column = chosen
        half = 0.46  # of a cell: the edge of the figure would cut a wider one
        box = {"x0": column - half, "x1": column + half, "y0": row - half, "y1": row + half}
        line = {"color": colours.accent, "width": 3}
        picture.add_shape(type="rect", line=line, layer="above", **box)
    return captioned(
        picture,
        say(
            "colours from {low} to {high}", low=f"{-whole if signed else 0:g}", high=f"{whole:.2f}"
        ),
    )
