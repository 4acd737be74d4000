"""Grid of single patches: the move of the output towards the donor sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import say
from ..charts.head_map import CLICKS
from ..charts.matrix_axes import OVERLAY, clickable, name_axes
from ..charts.theme import captioned, figure, letters, scale

ROW = 44  # pixels of a layer
LETTER = 8  # pixels that a letter of a row's name takes
WRITTEN = 12  # columns up to which numbers are written into their cells
WHOLE = 1.0  # all of the difference; end of the colours


def swap_grid(
    moved: np.ndarray,
    columns: Sequence[str],
    rows: Sequence[str] | None = None,
    *,
    kept: Collection[tuple[int, int]] = (),
    caption: str | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw patches as a grid: 0 is the background, 1 and -1 the last colours; more looks the same.

    A click gives ``[row, column, value]``; a site that cannot be patched cannot be clicked.

    Args:
        moved: ``[layer, head]`` or ``[layer, token]``: 0 as in the sentence, 1 as in the donor; NaN
            where nothing can be patched.
        columns: Names of heads or tokens.
        rows: Names of layers; if omitted, ``L0`` and so on.
        kept: Cells (row, column) that are an edit of the run, to outline.
        caption: Description of the numbers; if omitted, the meaning of 0 and 1.
        dark: Use colours for a dark background.

    Raises:
        ValueError: Not two axes, or another number of columns.
    """
    if moved.ndim != 2 or moved.shape[1] != len(columns):
        raise ValueError(
            f"Swaps are numbers [layer, column] for {len(columns)} columns; got shape "
            f"{moved.shape}."
        )
    names = [f"L{n}" for n in range(len(moved))] if rows is None else list(rows)
    picture, colours = figure(dark), palette(dark)
    name_axes(picture, names, list(columns))
    height = len(moved) * ROW + picture.layout.margin.t + 8
    left = 20 + LETTER * max(map(letters, names))
    picture.update_layout(height=height, margin={"l": left})
    if len(columns) <= WRITTEN:
        picture.update_layout(xaxis={"tickangle": 0})
    picture.add_trace(
        go.Heatmap(
            z=moved,
            zmin=-WHOLE,
            zmax=WHOLE,
            colorscale=scale(colours.changes),
            showscale=False,
            hoverongaps=False,
            xgap=2,
            ygap=2,
            texttemplate="%{z:.2f}" if len(columns) <= WRITTEN else None,
            textfont={"size": 14},
            hovertemplate="%{y} %{x}: %{z:+.3f}<extra></extra>",
            **OVERLAY,
        )
    )
    if moved.size <= CLICKS:
        picture.add_trace(_clicks(moved))
    for row, column in kept:
        half = 0.46  # of a cell: the edge of the figure would cut a wider one
        box = {
            "x0": column - half,
            "x1": column + half,
            "y0": row - half,
            "y1": row + half,
        }
        line = {"color": colours.accent, "width": 3}
        picture.add_shape(type="rect", line=line, layer="above", **box)
    return captioned(picture, _caption() if caption is None else caption)


def _clicks(moved: np.ndarray) -> go.Scatter:
    """Return markers over the cells; a click gives row and column."""
    row, column = np.nonzero(~np.isnan(moved))
    data = np.stack([row, column, moved[row, column]], axis=1).astype(np.float32)
    hover = "%{y} %{x}: %{customdata[2]:+.3f}"
    return clickable(column, row, data, 0.8 * ROW, hover, **OVERLAY)


def _caption() -> str:
    return say(
        "0: as in this sentence, 1: as in the other · colours from −1 to 1, what lies beyond has "
        "the last one"
    )
