"""How fast does each pair of dimensions turn?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.trace import Trace
from ...i18n import numeral, say
from ...metrics.positions.positions import FASTEST, SLOWEST, Wave, position_rows, run_note, waves
from .theme import STEADY, captioned, figure

TITLE = {"standoff": 8, "font": {"size": 14}}


def wavelengths(
    trace: Trace, name: str, *, pair: int | None = None, dark: bool = False
) -> go.Figure:
    """Draw the number of positions per turn of each pair, on a logarithmic scale.

    The lines mark both ends of the paper's formula (Vaswani et al. 2017, section 3.5). A click
    gives ``[pair]``.

    Args:
        trace: The run to show.
        name: A key of ``trace.positions``.
        pair: A pair to mark.
        dark: Use colours for a dark background.

    Raises:
        LookupError: The trace has no positions of this name; the message lists those it has.
        ValueError: Nothing rotates evenly: a learned, shuffled or empty table, or a bias.
    """
    table = position_rows(trace, name)
    found = waves(table)
    turning = [wave for wave in found if wave.frequency]
    picture = _frame(turning, len(found), dark)
    picture.add_trace(_points(turning, pair, dark))
    short = len(table) < FASTEST
    _line(picture, FASTEST, say("fastest: 2π"), "right", short, dark)
    here = say("this sentence: {count} positions", count=len(table))
    _line(picture, len(table), here, "right", not short, dark)
    _line(picture, SLOWEST, say("the paper's slowest: 10000 · 2π"), "left", True, dark)
    caption = _caption(found, turning, len(table))
    return captioned(picture, caption + run_note(trace, name), trace)


def _frame(turning: Sequence[Wave], pairs: int, dark: bool) -> go.Figure:
    lengths = [wave.wavelength for wave in turning]
    low, high = np.log10(min([FASTEST, *lengths])), np.log10(max([SLOWEST, *lengths]))
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    vertical = {
        "type": "log",
        "range": [low - 0.5, high + 0.5],
        "tickvals": [10.0**power for power in powers],
        "ticktext": [numeral(10.0**power, ",g") for power in powers],
        "title": {"text": say("positions of one turn"), **TITLE},
    }
    across = {"range": [-1, pairs], "title": {"text": say("pair of dimensions"), **TITLE}}
    return figure(
        dark,
        height=380,
        margin={"l": 84, "b": 56},
        xaxis=across,
        yaxis=vertical,
        hovermode="closest",
        hoverdistance=40,
    )


def _points(turning: Sequence[Wave], pair: int | None, dark: bool) -> go.Scatter:
    colours = palette(dark)
    chosen = np.array([wave.pair == pair for wave in turning])
    pairs = np.array([wave.pair for wave in turning])
    return go.Scatter(
        x=pairs,
        y=[wave.wavelength for wave in turning],
        customdata=pairs[:, None],
        mode="markers",
        marker={
            "opacity": 1,
            "line": {"width": 0},
            "size": np.where(chosen, 14, 7),
            "color": np.where(chosen, colours.warm, colours.accent),
        },
        **STEADY,
        hovertemplate=say("pair %{x}: one turn in %{y:,.1f} positions") + "<extra></extra>",
        name="pairs",
    )


def _line(picture: go.Figure, at: float, words: str, side: str, above: bool, dark: bool) -> None:
    """Draw a labelled horizontal line; plotly needs the label's y as a power of 10 here."""
    colours = palette(dark)
    picture.add_hline(y=at, line={"color": colours.line, "width": 1}, layer="below")
    picture.add_annotation(
        x=1 if side == "right" else 0.05,
        xref="paper",
        xanchor=side,
        y=np.log10(at),
        yanchor="bottom" if above else "top",
        text=words,
        font={"size": 14, "color": colours.quiet},
        showarrow=False,
    )


def _caption(found: Sequence[Wave], turning: Sequence[Wave], rows: int) -> str:
    lengths = [wave.wavelength for wave in turning]
    still = len(found) - len(turning)
    parts = [
        say(
            "measured from the {rows} rows of this run: from {least:,.2f} to {most:,.0f} positions",
            rows=rows,
            least=min(lengths),
            most=max(lengths),
        ),
        say("fast pairs tell neighbours apart, slow ones far places"),
    ]
    if still == 1:
        parts.append(say("1 pair stands still, not drawn"))
    elif still:
        parts.append(say("{count} pairs stand still, not drawn", count=still))
    return " · ".join(parts)
