"""Heatmap with named rows and columns, numbers in its cells, cells to click and outlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from .theme import escaped, figure, letters, scale

LABELS = 30  # names along one side before they get too dense to read
SEAMS = 60  # cells along one side up to which seams between them leave space for the cells
OVERLAY = {"xaxis": "x2", "yaxis": "y2"}  # for traces that name their cells on hover
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


def widen_left(picture: go.Figure, rows: Sequence[str], letter: float = LETTER) -> None:
    """Widen the left margin for names of rows with letters of so many pixels."""
    picture.update_layout(margin={"l": 20 + int(letter * max(map(letters, rows), default=0))})


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
    row, column = np.nonzero(~np.isnan(values) | empty)
    known = np.nan_to_num(values[row, column], posinf=np.inf, neginf=-np.inf)
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


def name_axes(picture: go.Figure, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Label numeric axes with tokens, so that repeated tokens stay apart; row 0 at the top.

    Long sentences show every n-th name. A second, unlabelled pair of axes over the first has every
    name. Traces on ``x2``/``y2`` (see `OVERLAY`) can name any cell on hover without a matrix of
    texts.
    """
    across, down = [-0.5, len(columns) - 0.5], [len(rows) - 0.5, -0.5]
    hidden: dict[str, Any] = {"showticklabels": False, "side": "top"}
    shown: dict[str, Any] = {"ticklabelstandoff": 6}
    picture.update_layout(
        xaxis={
            "side": "top",
            "tickangle": -50,
            "range": across,
            **_ticks(columns, LABELS),
            **shown,
        },
        yaxis={"range": down, **_ticks(rows, LABELS), **shown},
        xaxis2={"overlaying": "x", "range": across, **_ticks(columns), **hidden},
        yaxis2={"overlaying": "y", "range": down, **_ticks(rows), "showticklabels": False},
        margin={"l": 20 + _width(rows), "t": 20 + int(0.8 * _width(columns)), "r": 34},
        hovermode="closest",
    )
    # Axes without a trace are not drawn; this trace makes the labelled pair visible.
    corner = go.Scatter(x=[0], y=[0], mode="markers", marker={"opacity": 0}, hoverinfo="skip")
    picture.add_trace(corner)


def seams(cells: np.ndarray) -> dict[str, int]:
    """Return the gaps between the cells ``[row, column]`` of a heatmap; 0 if they would hide it."""
    rows, columns = cells.shape
    return {"xgap": int(columns <= SEAMS), "ygap": int(rows <= SEAMS)}


def _width(labels: Sequence[str]) -> int:
    """Return the pixels of the longest name; the figure's edge cuts off very long ones."""
    return min(150, int(8.2 * max(map(letters, labels), default=0)))


def _ticks(labels: Sequence[str], most: int | None = None) -> dict[str, Any]:
    step = 1 if most is None else max(1, -(-len(labels) // most))
    places = list(range(0, len(labels), step))
    names = [escaped(labels[place]) for place in places]
    return {"tickmode": "array", "tickvals": places, "ticktext": names}


def hatch(masked: np.ndarray, colour: str) -> go.Scatter:
    """Return a fine hatch over masked cells, one outline for each run of them in a row."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for row, line in enumerate(masked):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int8), [0]))))
        for left, right in edges.reshape(-1, 2) - 0.5:
            xs += [left, right, right, left, left, None]
            ys += [row - 0.5, row - 0.5, row + 0.5, row + 0.5, row - 0.5, None]
    return go.Scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor="rgba(0,0,0,0)",
        fillpattern={"shape": "/", "size": 5, "solidity": 0.18, "fgcolor": colour},
        hoverinfo="skip",
        name="masked",
    )


def clickable(
    x: np.ndarray, y: np.ndarray, data: np.ndarray, size: float, hover: str, **more: Any
) -> go.Scatter:
    """Return transparent markers over a figure, since a heatmap itself emits no clicks.

    Args:
        x, y: Centres ``[cell]``.
        data: Payload of a click, ``[cell, number]``; it comes back as ``customdata``.
        size: Pixels, at least those of a cell.
        hover: Plotly's hover template, needed because the markers cover the figure.
        more: Further properties of the trace.
    """
    unseen = {"marker": {"opacity": 0}}
    return go.Scatter(
        x=x,
        y=y,
        customdata=data,
        mode="markers",
        marker={"opacity": 0, "symbol": "square", "size": size},
        selected=unseen,
        unselected=unseen,
        hovertemplate=hover + "<extra></extra>",
        name="cells",
        **more,
    )
