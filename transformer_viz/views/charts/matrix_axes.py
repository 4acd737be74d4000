"""Shared parts of plotly maps: tokens on both axes, a hatch for masked cells, clickable cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from .theme import escaped, letters

LABELS = 30  # names along one side before they get too dense to read
SEAMS = 60  # cells along one side up to which seams between them leave space for the cells
OVERLAY = {"xaxis": "x2", "yaxis": "y2"}  # for traces that name their cells on hover


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
