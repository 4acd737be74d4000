"""Loss curve of a training run over the tokens read."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import mark, say
from .theme import figure

LINES = (
    ("loss", mark("training"), "quiet"),
    ("valid_loss", mark("unseen"), "accent"),
)


def training_curve(log: pd.DataFrame, dark: bool = False) -> go.Figure:
    """Draw the losses of a run's ``log.csv``.

    ``log`` has the columns ``tokens`` (tokens or pictures learned from so far), ``step``, ``loss``
    and ``valid_loss`` (nats each; empty where it was not measured).
    """
    colours = palette(dark)
    chart = figure(
        dark,
        title=say("Did the model still learn at the end?"),
        margin={"l": 64, "r": 16, "t": 56, "b": 56},
        showlegend=True,
        legend={"x": 1, "xanchor": "right", "y": 1},
        xaxis={"title": say("read so far, millions"), "fixedrange": False},
        yaxis={"title": say("loss, nats"), "fixedrange": False, "showgrid": True},
    )
    for column, name, colour in LINES:
        points = log[log[column].notna()]
        chart.add_scatter(
            x=points["tokens"] / 1e6,
            y=points[column],
            customdata=points["step"],
            name=say(name),
            mode="lines+markers" if column == "valid_loss" else "lines",
            line={"color": getattr(colours, colour), "width": 2},
            hovertemplate=say("update %{customdata:,}: %{y:.3f}") + f"<extra>{say(name)}</extra>",
        )
    return chart
