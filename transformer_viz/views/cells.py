"""The cells of a head's map: weights with their words, what is masked, and what can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ..interventions import Temperature
from ..metrics import Axis, Regrouped, axis, merge_words, produced_axis, without_special
from ..records import Attention, Trace
from .theme import escaped

MASK_SCORE = -1e3  # a score of at most this is a mask (interventions and models alike)
LABELS = 30  # names along one side before they get too dense to read
OVERLAY = {"xaxis": "x2", "yaxis": "y2"}  # for traces that name their cells on hover


@dataclass(frozen=True, eq=False)
class Cells:
    """One head ready to draw: ``weights`` and ``masked`` ``[query, key]``, and the names of both.

    ``members`` gives, for each row, the model's own rows that are in it, ``parts`` the same for
    columns. ``note`` says what was done to the rows, in a sentence; empty when they are as the
    model's.
    """

    weights: np.ndarray
    masked: np.ndarray
    rows: Axis
    columns: Axis
    members: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[int, ...], ...]
    note: str = ""

    @property
    def blind(self) -> tuple[str, ...]:
        """The rows that have nothing left to look at."""
        return tuple(self.rows.labels[row] for row in np.flatnonzero(self.masked.all(axis=1)))

    def row_of(self, token: int | None) -> int | None:
        """The row in which one of the model's rows stands, if it is shown."""
        return _place(self.members, token)

    def column_of(self, token: int | None) -> int | None:
        """The column in which a token stands, if it is shown."""
        return _place(self.parts, token)


def _place(groups: tuple[tuple[int, ...], ...], token: int | None) -> int | None:
    return next((place for place, tokens in enumerate(groups) if token in tokens), None)


def cells(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    words: bool = False,
    special: bool = True,
) -> Cells:
    """The cells of one head; ``words`` merges pieces, ``special`` false leaves marks out.

    Raises:
        LookupError: a map, layer or head that the trace lacks; names those it has.
    """
    attention = trace.block(block, layer)
    if not 0 <= head < len(attention.weights):
        raise LookupError(
            f"{block!r} L{layer} has heads 0 to {len(attention.weights) - 1}; got {head}."
        )
    rows, columns = axes(trace, attention)
    divided = trace.intervention.find(Temperature, replace(attention.site, head=head)) is not None
    weights, seen = attention.weights[head], visible(attention, head, divided)
    drawn, shown = (_regroup(part, rows, columns, words, special) for part in (weights, seen))
    members, parts = (_members(side, words, special) for side in (rows, columns))
    masked = shown.weights <= 0
    return Cells(drawn.weights, masked, drawn.queries, drawn.keys, members, parts, drawn.note)


def axes(trace: Trace, attention: Attention) -> tuple[Axis, Axis]:
    """The names of rows and columns: a decoder's rows bear the words that they produce."""
    keys = axis(trace.tokens(attention.key))
    if attention.site.stack == "decoder" and trace.produced:
        return produced_axis(trace.produced, trace.tokens(attention.query)), keys
    return axis(trace.tokens(attention.query)), keys


def visible(attention: Attention, head: int, divided: bool = False) -> np.ndarray:
    """Which cells the head may see, ``[query, key]`` of 0 and 1.

    Scores tell exactly: a very low one is a mask; but where an edit ``divided`` them by a
    temperature, which makes any score low, only minus infinity is. Without them a cell of weight 0
    counts as hidden, which hard attention and switched-off heads make wrong: keep the scores where
    those are drawn.
    """
    if attention.scores is None:
        return (attention.weights[head] != 0).astype(np.float64)
    least = -np.inf if divided else MASK_SCORE
    return (attention.scores[head] > least).astype(np.float64)


def _regroup(part: np.ndarray, rows: Axis, columns: Axis, words: bool, special: bool) -> Regrouped:
    """Leave special tokens out first, then merge: a word never swallows a mark."""
    found = Regrouped(part, rows, columns, "")
    notes = []
    if not special:
        found = without_special(found.weights, found.queries, found.keys)
        notes.append(found.note)
    if words:
        found = merge_words(found.weights, found.queries, found.keys)
        notes.append(found.note)
    return Regrouped(found.weights, found.queries, found.keys, " ".join(filter(None, notes)))


def _members(side: Axis, words: bool, special: bool) -> tuple[tuple[int, ...], ...]:
    kept = [t for t in range(len(side)) if special or not side.special[t]]
    groups: dict[int, list[int]] = {}
    for token in kept:
        groups.setdefault(side.words[token] if words else token, []).append(token)
    return tuple(tuple(tokens) for tokens in groups.values())


def name_axes(picture: go.Figure, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Words on numeric axes, so that repeated words stay apart; row 0 at the top, columns above.

    Long sentences show every n-th name. A second, unlabelled pair of axes lies over the first and
    knows every name: traces on ``x2``/``y2`` (see `OVERLAY`) can name any cell when hovered,
    without a matrix of texts.
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
    # Axes without a trace are not drawn; this one makes sure of the labelled pair.
    corner = go.Scatter(x=[0], y=[0], mode="markers", marker={"opacity": 0}, hoverinfo="skip")
    picture.add_trace(corner)


def _width(labels: Sequence[str]) -> int:
    """Pixels that the longest name takes; very long ones are cut off by the picture's edge."""
    return min(150, int(8.2 * max(map(len, labels), default=0)))


def _ticks(labels: Sequence[str], most: int | None = None) -> dict[str, Any]:
    step = 1 if most is None else max(1, -(-len(labels) // most))
    places = list(range(0, len(labels), step))
    names = [escaped(labels[place]) for place in places]
    return {"tickmode": "array", "tickvals": places, "ticktext": names}


def hatch(masked: np.ndarray, colour: str) -> go.Scatter:
    """A fine hatch over masked cells, one outline for each run of them in a row."""
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
    """Transparent markers over a picture, since a heatmap itself answers no click.

    Args:
        x, y: centres ``[cell]``.
        data: what a click means, ``[cell, number]``; it comes back as ``customdata``.
        size: pixels, at least those of a cell.
        hover: plotly's hover template; the markers cover the picture, so they speak for it.
        more: further words of the trace.
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
