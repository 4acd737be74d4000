"""Histogram of sentences by their mean of a measure, with chance and overall mean."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import numeral, say
from ..charts.theme import captioned, figure


def sentence_counts(
    counts: np.ndarray,
    edges: np.ndarray,
    *,
    mean: float,
    chance: float,
    dark: bool = False,
) -> go.Figure:
    """Draw a histogram of sentences by their own mean of a measure.

    Args:
        counts: Sentences of each bin, ``[bin]``.
        edges: Edges of the bins, ``[bin + 1]``.
        mean: Mean over the rows of all sentences; NaN is not drawn.
        chance: Expected value by chance on the same rows; NaN is not drawn.
        dark: Use colours for a dark background.

    Raises:
        ValueError: The edges are not one more than the counts.
    """
    if len(edges) != len(counts) + 1:
        raise ValueError(f"{len(counts)} bins have {len(counts) + 1} edges; got {len(edges)}.")
    picture, colours = figure(dark), palette(dark)
    names = [f"{low:.3f}–{high:.3f}" for low, high in pairwise(edges)]
    picture.add_trace(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts,
            width=np.diff(edges),
            customdata=names,
            name=say("sentences"),
            marker={"color": colours.accent, "line": {"width": 0}},
            hovertemplate="%{customdata}: %{y}<extra></extra>",
        )
    )
    for number, colour, dash in ((mean, colours.ink, "solid"), (chance, colours.warm, "dash")):
        if np.isfinite(number):
            picture.add_vline(x=float(number), line={"color": colour, "width": 2, "dash": dash})
    picture.update_layout(
        showlegend=False,
        height=240,
        margin={"l": 56, "b": 48, "t": 8},
        bargap=0,
        xaxis={"title": {"text": say("a sentence's own mean")}, "range": [edges[0], edges[-1]]},
        yaxis={"title": {"text": say("sentences")}, "rangemode": "tozero"},
    )
    total = numeral(int(counts.sum()), ",")
    return captioned(
        picture,
        say(
            "{count} sentences with a row to ask, in {bins} bins · line: mean of all rows "
            "({mean}) · dashed: chance ({chance})",
            count=total,
            bins=len(counts),
            mean=_number(mean),
            chance=_number(chance),
        ),
    )


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"
