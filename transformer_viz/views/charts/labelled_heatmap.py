"""Heatmap with named rows and columns, numbers in its cells, cells to click and outlines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from .matrix_axes import OVERLAY, clickable, name_axes, seams
from .theme import figure, letters, scale

CLICKS = 4096  # cells that get a marker of their own; larger maps answer the pointer only
MAX_NUMBERED = 12  # columns up to which numbers are written into the cells
LETTER = 8  # pixels of a letter of a row's name
INSET = 0.46  # half an outline, in cells: the edge of the picture would cut a wider one


def labelled_heatmap(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float],
    *,
    hover: str,
    row_height: int,
    heights: tuple[int, int] | None = None,
    digits: int | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw numbers as cells, row 0 at the top.

    Limits from 0 have colours from the background's; other limits lie on both sides of it. Cells
    without a number (NaN) are empty.

    Args:
        values: Numbers, ``[row, column]``.
        rows: Names of the rows.
        columns: Names of the columns.
        limits: Values at both ends of the colours; beyond them colours do not change.
        hover: Plotly's hover template, with ``%{y}``, ``%{x}`` and ``%{z}``.
        row_height: Height of a row, in pixels.
        heights: Least and largest height of the picture; if omitted, the rows decide alone.
        digits: Decimal places of the numbers in the cells of grids with at most `MAX_NUMBERED`
            columns; if omitted, cells have no numbers and thin gaps.
        dark: Use colours for a dark background.

    Raises:
        ValueError: The names do not fit the shape of the values.
    """
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A map of shape {values.shape} has other names: {len(rows)} rows, "
            f"{len(columns)} columns."
        )
    picture, colours = figure(dark), palette(dark)
    name_axes(picture, rows, columns)
    height = len(rows) * row_height + picture.layout.margin.t
    picture.update_layout(height=height + 8 if heights is None else int(np.clip(height, *heights)))
    numbered = digits is not None and len(columns) <= MAX_NUMBERED
    if numbered:
        picture.update_layout(xaxis={"tickangle": 0})
    picture.add_trace(
        go.Heatmap(
            z=values,
            zmin=limits[0],
            zmax=limits[1],
            colorscale=scale(colours.changes if limits[0] else colours.amounts),
            showscale=False,
            hoverongaps=False,
            **(seams(values) if digits is None else {"xgap": 2, "ygap": 2}),
            texttemplate=f"%{{z:.{digits}f}}" if numbered else None,
            textfont={"size": 14},
            hovertemplate=f"{hover}<extra></extra>",
            **OVERLAY,
        )
    )
    return picture


def name_heads(shape: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """Return the names of the layers and heads of an array ``[layer, head]``."""
    return [f"L{n}" for n in range(shape[0])], [f"H{n}" for n in range(shape[1])]


def widen_left(picture: go.Figure, rows: Sequence[str]) -> None:
    """Make room for long names of rows."""
    picture.update_layout(margin={"l": 20 + LETTER * max(map(letters, rows), default=0)})


def add_clicks(
    picture: go.Figure, values: np.ndarray, hover: str, *, size: float, empty: bool = False
) -> None:
    """Make the cells of a heatmap clickable, unless there are more than `CLICKS`.

    A click gives ``[row, column, value]``.

    Args:
        picture: A figure of `labelled_heatmap`.
        values: Its numbers, ``[row, column]``.
        hover: Plotly's hover template; the value is ``%{customdata[2]}``.
        size: Size of a marker, in pixels.
        empty: Cells without a number can be clicked too, with the value 0.
    """
    if values.size > CLICKS:
        return
    row, column = np.nonzero(np.isfinite(values) | empty)
    known = np.nan_to_num(values[row, column])
    data = np.stack([row, column, known], axis=1).astype(np.float32)
    picture.add_trace(clickable(column, row, data, size, hover, **OVERLAY))


def outline_cell(picture: go.Figure, row: int, column: int, colour: str) -> None:
    """Draw a frame around one cell."""
    edges = {"x0": column - INSET, "x1": column + INSET, "y0": row - INSET, "y1": row + INSET}
    picture.add_shape(type="rect", line={"color": colour, "width": 3}, layer="above", **edges)


def outline_row(picture: go.Figure, row: int, columns: int, colour: str) -> None:
    """Draw a frame around a row."""
    _outline(picture, -0.5, columns - 0.5, row - 0.5, row + 0.5, colour)


def outline_column(picture: go.Figure, column: int, rows: int, colour: str) -> None:
    """Draw a frame around a column."""
    _outline(picture, column - 0.5, column + 0.5, -0.5, rows - 0.5, colour)


def _outline(picture: go.Figure, x0: float, x1: float, y0: float, y1: float, colour: str) -> None:
    line = {"color": colour, "width": 2}
    picture.add_shape(type="rect", line=line, layer="above", x0=x0, x1=x1, y0=y0, y1=y1)
