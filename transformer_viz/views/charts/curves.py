"""Curves over numbers or names, for any measured quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ...core.palette import OKABE_ITO, palette
from .theme import STEADY, captioned, escaped, figure

LETTERS = 48  # letters of all names together that fit side by side in a third of the page


@dataclass(frozen=True, eq=False)
class Curve:
    """Curve of a figure.

    Attributes:
        name: Name in the legend.
        x, y: Points, both of the same length (NaN: no point).
        dashed: True for a prediction of a formula beside measurements.
        bare: True to draw points without a line.
        marked: Index in ``x`` of a point to highlight.
    """

    name: str
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    dashed: bool = False
    bare: bool = False
    marked: int | None = None


def curves(
    lines: Sequence[Curve],
    across: str,
    up: str,
    caption: str,
    *,
    names: Sequence[str] | None = None,
    log: str = "",
    least: float | None = None,
    most: float | None = None,
    height: int = 340,
    dark: bool = False,
) -> go.Figure:
    """Draw curves in one figure, the first in the accent colour, with a legend above.

    Args:
        lines: At most eight, since colours cannot separate more.
        across: Title of the horizontal axis, with its unit.
        up: Title of the vertical axis.
        caption: Caption of the figure.
        names: Names of x = 0, 1, 2 ..., where they are no numbers.
        log: The logarithmic axes: ``x``, ``y`` or ``xy``.
        least, most: Limits of the vertical axis; None to fit the data.
        height: Pixels.
        dark: Use colours for a dark background.

    Raises:
        ValueError: No curve, more than eight, or one whose x and y differ in length.
    """
    _check(lines)
    below = 56 if names is None or not _slanted(names) else 120
    margin = {"l": 64, "b": below, "t": 40}
    picture = figure(dark, height=height, margin=margin, hovermode="closest")
    tints = _tints(dark)
    for line, tint in zip(lines, tints, strict=False):
        picture.add_trace(_line(line, tint, names))
        if line.marked is not None:
            picture.add_trace(_mark(line, tint))
    picture.update_layout(
        showlegend=len(lines) > 1,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 14}},
        xaxis=_across(lines, across, names, "x" in log),
        yaxis=_up(lines, up, "y" in log, least, most) | {"gridcolor": palette(dark).line},
    )
    return captioned(picture, caption)


def _check(lines: Sequence[Curve]) -> None:
    if not 0 < len(lines) <= len(OKABE_ITO):
        raise ValueError(f"A picture holds 1 to {len(OKABE_ITO)} curves; got {len(lines)}.")
    for line in lines:
        if len(line.x) != len(line.y):
            raise ValueError(
                f"The curve {line.name!r} has {len(line.x)} places and {len(line.y)} values; give "
                "as many."
            )


def _tints(dark: bool) -> tuple[str, ...]:
    """Return the accent, the warm colour, then distinct colours of Okabe and Ito."""
    colours = palette(dark)
    return (
        colours.accent,
        colours.warm,
        *(OKABE_ITO[n] for n in (2, 3, 1, 5)),
        colours.quiet,
        colours.ink,
    )


def _line(line: Curve, tint: str, names: Sequence[str] | None) -> go.Scatter:
    across = "%{x}" if names is None else "%{text}"
    return go.Scatter(
        x=np.asarray(line.x, float),
        y=np.asarray(line.y, float),
        text=None if names is None else [escaped(names[int(x)]) for x in line.x],
        name=escaped(line.name),
        mode="markers" if line.bare else "lines" if line.dashed else "lines+markers",
        line={"color": tint, "width": 2, "dash": "dash" if line.dashed else "solid"},
        marker={"color": tint, "size": 7},
        cliponaxis=False,
        hovertemplate=across + ": %{y:.4~g}<extra>" + escaped(line.name) + "</extra>",
        **STEADY,
    )


def _slanted(names: Sequence[str]) -> bool:
    """Return True if the names are too long to stand side by side."""
    return sum(map(len, names)) > LETTERS


def _mark(line: Curve, tint: str) -> go.Scatter:
    assert line.marked is not None
    return go.Scatter(
        x=[float(line.x[line.marked])],
        y=[float(line.y[line.marked])],
        mode="markers",
        marker={"color": "rgba(0,0,0,0)", "size": 17, "line": {"color": tint, "width": 3}},
        hoverinfo="skip",
        cliponaxis=False,
        showlegend=False,
        **STEADY,
    )


def _across(
    lines: Sequence[Curve], title: str, names: Sequence[str] | None, log: bool
) -> dict[str, object]:
    axis: dict[str, object] = {"title": {"text": escaped(title), "font": {"size": 14}}}
    if names is not None:
        return axis | {
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": [escaped(name) for name in names],
            "tickangle": -50 if _slanted(names) else 0,
            "range": [-0.3, len(names) - 0.7],
        }
    if not log:
        return axis
    ticks = sorted({float(x) for line in lines for x in line.x})
    return axis | {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}


def _up(
    lines: Sequence[Curve], title: str, log: bool, least: float | None, most: float | None
) -> dict[str, object]:
    axis: dict[str, object] = {
        "title": {"text": escaped(title), "font": {"size": 14}},
        "showgrid": True,
    }
    if not log:
        return axis | ({} if least is None and most is None else {"range": [least, most]})
    values = np.concatenate([np.asarray(line.y, float) for line in lines])
    values = values[np.isfinite(values) & (values > 0)]
    low, high = (values.min(), values.max()) if values.size else (1.0, 10.0)
    ends = np.log10(low if least is None else least), np.log10(high if most is None else most)
    edge = 0.04 * (ends[1] - ends[0]) + 0.02
    powers = range(int(np.floor(ends[0])), int(np.ceil(ends[1])) + 1)
    ticks = [10.0**power for power in powers]
    if ends[1] - ends[0] < 1.5:
        ticks = [first * tick for tick in ticks for first in (1, 2, 5)]
    return axis | {
        "type": "log",
        "range": [ends[0] - edge, ends[1] + edge],
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
    }
