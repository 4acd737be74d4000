"""Can one turn take a position to the one k words further on?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.positions.positions import Shift, position_names, position_rows, run_note, shift
from .theme import STEADY, captioned, figure

ROUNDING = 1e-5  # relative differences below this are the rounding of the table's own numbers
SIDES = {"first": mark("first of the pair"), "second": mark("second of the pair")}
TITLE = {"standoff": 8, "font": {"size": 14}}


def position_shift(
    trace: Trace, name: str, by: int, token: int, *, dark: bool = False
) -> go.Figure:
    """Draw row p rotated (points) over row p + k (lines), both dimensions of each pair.

    A rotation for each pair is fitted over all positions. Where it fits everywhere, attention can
    find "k tokens back" by a single matrix at any position (Vaswani et al. 2017, section 3.5). A
    click on a circle gives the pair first: ``[pair, dimension, actual value]``.

    Args:
        trace: The run to show.
        name: A key of ``trace.positions``.
        by: k, in positions, from 0 to one less than there are.
        token: p.
        dark: Use colours for a dark background.

    Raises:
        LookupError: The trace has no positions of this name; the message lists those it has.
        ValueError: p or p + k is no position of this sentence; a bias, or a table of zeros.
    """
    table = position_rows(trace, name)
    moved = shift(table, by)
    if not 0 <= token < len(moved.actual):
        raise ValueError(
            say(
                "Position {place} moved by {by} would be {reached}; this sentence has positions "
                "0 to {last}. Choose an earlier word or a smaller shift.",
                place=token,
                by=by,
                reached=token + by,
                last=len(table) - 1,
            )
        )
    names = position_names(trace, name, len(table))
    picture = _frame(table, len(moved.first), dark)
    colours = palette(dark)
    sides = (("first", moved.first, colours.accent), ("second", moved.second, colours.warm))
    for side, columns, colour in sides:
        _side(picture, moved, token, columns, side, colour)
    return captioned(picture, _caption(moved, names, token) + run_note(trace, name), trace)


def _frame(table: np.ndarray, pairs: int, dark: bool) -> go.Figure:
    limit = 1.15 * float(np.abs(table).max()) or 1.0
    zero = {"zeroline": True, "zerolinecolor": palette(dark).line}
    return figure(
        dark,
        height=320,
        margin={"l": 48, "t": 40, "b": 56},
        xaxis={"range": [-1, pairs], "title": TITLE | {"text": say("pair of dimensions")}},
        yaxis={"range": [-limit, limit], "nticks": 5, **zero},
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        hovermode="closest",
    )


def _side(
    picture: go.Figure, moved: Shift, token: int, columns: np.ndarray, side: str, colour: str
) -> None:
    """Draw one of the two dimensions of every pair: actual, and as the rotation predicts it."""
    pairs = np.arange(len(columns))
    picture.add_scatter(
        x=pairs,
        y=moved.actual[token, columns],
        mode="lines",
        line={"width": 2, "color": colour},
        hoverinfo="skip",
        name=say(SIDES[side]),
    )
    picture.add_scatter(
        x=pairs,
        y=moved.predicted[token, columns],
        customdata=np.stack([pairs, columns, moved.actual[token, columns]], axis=1),
        mode="markers",
        marker={"opacity": 1, "size": 7, "color": colour, "symbol": "circle-open"},
        **STEADY,
        hovertemplate=say(
            "pair %{customdata[0]:d}, dimension %{customdata[1]:d}<br>turned %{y:.3f}, as it is "
            "%{customdata[2]:.3f}"
        )
        + "<extra></extra>",
        showlegend=False,
        name="turned",
    )


def _caption(moved: Shift, names: tuple[str, ...], token: int) -> str:
    count = len(moved.actual)
    place = say(
        "“{word}” moved by {by} to “{other}”",
        word=names[token],
        by=moved.shift,
        other=names[token + moved.shift],
    )
    how = say("circles: turned; lines: as it is")
    if count == 1:
        fit = say(
            "the largest difference is {largest:.2g}: only one word can go so far, so a fit "
            "proves nothing",
            largest=moved.largest,
        )
    elif moved.relative < ROUNDING:
        fit = say(
            "over all {count} positions the largest difference is {largest}: the same turn fits "
            "everywhere",
            count=count,
            largest=f"{moved.largest:.8f}".rstrip("0").rstrip("."),
        )
    else:
        fit = say(
            "over all {count} positions the largest difference is {largest:.2g}, {part:.0%} of "
            "the table's largest value",
            count=count,
            largest=moved.largest,
            part=moved.relative,
        )
    return f"{place} · {how} · {fit}"
