"""What does this norm multiply and add to each dimension?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ...core.palette import Palette, palette
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.residual.norm_labels import norm_labels
from ...metrics.residual.outliers import PARTS, gain_and_bias, outstanding_gains
from .theme import captioned, figure

HEIGHT = 420
#: The two panels: part, heading, neutral value, text for a norm without that part.
PANELS = (
    (
        "gain",
        mark("gain: each dimension is multiplied by it"),
        1.0,
        mark("This norm has no gain."),
    ),
    ("bias", mark("bias: then this is added"), 0.0, mark("This norm adds no bias.")),
)
NEAR = (0.09, 0.16)  # of a panel's width and height: nearer numbers would cover each other
DOMAINS = ((0.56, 0.93), (0.0, 0.37))  # of the picture's height, for gain and for bias


def gain_bias(trace: Trace, site: str, *, dark: bool = False) -> go.Figure:
    """Draw a norm's learned gain and bias, a point for each dimension of the residual stream.

    Outlying dimensions are marked with their number. A line shows the neutral value (1 for the
    gain, 0 for the bias). Each value is shown on hover; clicks have no effect.

    Args:
        trace: The run whose norm is shown.
        site: Name of a norm, as in ``trace.gains``.
        dark: Use colours for a dark background.

    Raises:
        LookupError: No such norm; the message lists the available ones.
    """
    vectors, far = gain_and_bias(trace, site), outstanding_gains(trace, site)
    colours = palette(dark)
    picture = _frame(dark)
    for number, (part, heading, neutral, none) in enumerate(PANELS):
        vector = vectors[number]
        _heading(picture, number, say(heading if vector is not None else none), colours)
        if vector is None:
            picture.update_layout({_axis("yaxis", number): {"visible": False}})
            picture.update_layout({_axis("xaxis", number): {"visible": False}})
            continue
        picture.add_trace(_points(vector, part, number, colours))
        _neutral(picture, len(vector), neutral, number, colours)
        _mark(picture, far[far["part"] == part], number, vector, colours)
    return captioned(picture, _caption(trace, site, far), trace)


def _axis(word: str, number: int) -> str:
    return word if number == 0 else f"{word}{number + 1}"


def _frame(dark: bool) -> go.Figure:
    picture = figure(dark, height=HEIGHT, margin={"l": 52, "b": 48, "r": 16}, hovermode="closest")
    for number, domain in enumerate(DOMAINS):
        last = number == len(DOMAINS) - 1
        across = {"anchor": f"y{number + 1}", "nticks": 9, "showticklabels": last}
        title = {"text": say("dimension") if last else "", "font": {"size": 14}}
        down = {"anchor": f"x{number + 1}", "domain": domain, "nticks": 4}
        picture.update_layout(
            {_axis("xaxis", number): across | {"title": title}, _axis("yaxis", number): down}
        )
    return picture


def _heading(picture: go.Figure, number: int, text: str, colours: Palette) -> None:
    picture.add_annotation(
        text=text,
        x=0,
        y=DOMAINS[number][1] + 0.01,
        xref="paper",
        yref="paper",
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        font={"size": 14, "color": colours.quiet},
    )


def _points(vector: np.ndarray, part: str, number: int, colours: Palette) -> go.Scatter:
    return go.Scatter(
        x=np.arange(len(vector)),
        y=vector,
        mode="markers",
        marker={"color": colours.accent, "size": 4},
        hovertemplate=say("dimension %{{x}}: {part} %{{y:.4~g}}", part=say(PARTS[part]))
        + "<extra></extra>",
        name=say(PARTS[part]),
        xaxis=f"x{number + 1}",
        yaxis=f"y{number + 1}",
    )


def _neutral(picture: go.Figure, width: int, value: float, number: int, colours: Palette) -> None:
    picture.add_shape(
        type="line",
        x0=-0.5,
        x1=width - 0.5,
        y0=value,
        y1=value,
        xref=f"x{number + 1}",
        yref=f"y{number + 1}",
        line={"color": colours.line, "width": 1},
        layer="below",
    )


def _mark(
    picture: go.Figure, far: pd.DataFrame, number: int, vector: np.ndarray, colours: Palette
) -> None:
    """Mark the outlying dimensions with a warm point, and with their number where it fits."""
    if far.empty:
        return
    width, spread = len(vector), float(np.ptp(vector))
    axes = {"xaxis": f"x{number + 1}", "yaxis": f"y{number + 1}"}
    picture.add_trace(
        go.Scatter(
            x=far["dimension"],
            y=far["value"],
            mode="markers",
            marker={"color": colours.warm, "size": 8},
            hoverinfo="skip",
            name="outstanding",
            **axes,
        )
    )
    for dimension, value in _apart(far, width, spread):
        right = dimension < width * 0.95
        picture.add_annotation(
            text=str(dimension),
            x=dimension,
            y=value,
            xref=axes["xaxis"],
            yref=axes["yaxis"],
            xanchor="left" if right else "right",
            xshift=6 if right else -6,
            showarrow=False,
            font={"size": 14, "color": colours.warm},
        )


def _apart(far: pd.DataFrame, width: int, spread: float) -> list[tuple[int, float]]:
    """Return the points whose numbers can be written without overlap, farthest first."""
    kept: list[tuple[int, float]] = []
    for dimension, value in zip(far["dimension"], far["value"], strict=True):
        if all(
            abs(dimension - other) > NEAR[0] * width or abs(value - height) > NEAR[1] * spread
            for other, height in kept
        ):
            kept.append((int(dimension), float(value)))
    return kept


def _caption(trace: Trace, site: str, far: pd.DataFrame) -> str:
    (place,) = norm_labels(trace, (site,))
    found = say("{count} marked values stand out", count=len(far))
    if len(far) == 1:
        found = say("1 marked value stands out")
    elif far.empty:
        found = say("none stands out")
    return say("{place}: gain and bias over dimensions", place=place) + f" · {found}"
