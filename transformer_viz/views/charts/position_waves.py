"""How do the two numbers of a pair go from word to word?"""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.trace import Trace
from ...i18n import say
from ...metrics.positions.positions import (
    Wave,
    column_names,
    measured,
    position_names,
    position_rows,
    run_note,
    waves,
)
from .labelled_heatmap import LABELS
from .theme import STEADY, captioned, escaped, figure

BETWEEN = 16  # points of the curve from one position to the next
MAX_CURVE_POINTS = 1600  # points of a curve, however long the sentence


def position_waves(trace: Trace, name: str, pair: int, *, dark: bool = False) -> go.Figure:
    """Draw both dimensions of a pair over the positions, as points with the fitted wave.

    The thin curve is the measured even rotation. If the table does not rotate evenly, there is no
    curve and straight lines join the points. A click on a point gives ``[token]``.

    Args:
        trace: The run to show.
        name: A key of ``trace.positions``.
        pair: Index of the pair, from 0.
        dark: Use colours for a dark background.

    Raises:
        LookupError: The trace has no positions of this name, or the table no such pair.
        ValueError: A bias, or a table of zeros.
    """
    table = position_rows(trace, name)
    wave, even = _wave(table, pair)
    places = np.arange(len(table))
    names = position_names(trace, name, len(table))
    size = 8 if len(names) <= LABELS else 5
    picture = _frame(names, table[:, [wave.first, wave.second]], dark)
    colours, labels = palette(dark), column_names(name, table.shape[1])
    for column, colour in ((wave.first, colours.accent), (wave.second, colours.warm)):
        label = labels[column]
        if even:
            picture.add_trace(_curve(wave, column, len(table), colour))
        picture.add_scatter(
            x=places,
            y=table[:, column],
            customdata=places[:, None],
            mode="markers" if even else "lines+markers",
            marker={"opacity": 1, "size": size, "color": colour},
            **STEADY,
            line={"width": 1, "color": colour},
            name=label,
            hovertext=[escaped(word) for word in names],
            hovertemplate=f"%{{hovertext}}<br>{label}: %{{y:.3f}}<extra></extra>",
        )
    return captioned(picture, _caption(wave, even, len(table)) + run_note(trace, name), trace)


def _wave(table: np.ndarray, pair: int) -> tuple[Wave, bool]:
    found = measured(table)
    if not 0 <= pair < len(found):
        raise LookupError(
            say("This table has pairs 0 to {last}; got {pair}.", last=len(found) - 1, pair=pair)
        )
    try:
        return waves(table)[pair], True
    except ValueError:
        return found[pair], False


def _frame(names: tuple[str, ...], values: np.ndarray, dark: bool) -> go.Figure:
    limit = 1.15 * float(np.abs(values).max()) or 1.0
    step = -(-len(names) // LABELS)
    shown = list(range(0, len(names), step))
    fields: dict[str, Any] = {
        "tickvals": shown,
        "ticktext": [escaped(names[place]) for place in shown],
        "tickangle": -50,
        "range": [-0.5, len(names) - 0.5],
    }
    zero = {"zeroline": True, "zerolinecolor": palette(dark).line}
    return figure(
        dark,
        height=320,
        margin={"l": 48, "t": 40, "b": 84},
        xaxis=fields,
        yaxis={"range": [-limit, limit], "nticks": 5, **zero},
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        hovermode="closest",
    )


def _curve(wave: Wave, column: int, rows: int, colour: str) -> go.Scatter:
    points = min(MAX_CURVE_POINTS, (rows - 1) * BETWEEN + 1)
    between = np.linspace(0, rows - 1, points)
    return go.Scatter(
        x=between,
        y=wave.at(between)[:, 0 if column == wave.first else 1],
        mode="lines",
        line={"width": 1, "color": colour},
        hoverinfo="skip",
        showlegend=False,
        name="wave",
    )


def _caption(wave: Wave, even: bool, rows: int) -> str:
    if not even:
        return say(
            "pair {pair}: it does not turn evenly, so straight lines join the points",
            pair=wave.pair,
        )
    if not wave.frequency:
        return say("pair {pair}: it stands still", pair=wave.pair)
    turns = (rows - 1) / wave.wavelength
    fields = {"pair": wave.pair, "length": wave.wavelength, "turns": turns}
    seen = say(
        "pair {pair}: one turn takes {length:,.1f} positions, so this sentence sees {turns:.2g} of "
        "a turn",
        **fields,
    )
    if turns >= 0.95:
        seen = say(
            "pair {pair}: one turn takes {length:,.1f} positions, so this sentence sees "
            "{turns:.1f} turns",
            **fields,
        )
    return f"{seen} · " + say("points are the table, the thin curve is the wave through them")
