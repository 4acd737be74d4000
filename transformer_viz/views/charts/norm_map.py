"""What does each norm get and give, word by word?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ...core.palette import Palette, palette
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import say
from ...metrics.residual.norm_labels import norm_labels
from ...metrics.residual.norm_statistics import (
    Statistic,
    find_statistic,
    norm_change,
    norm_statistic,
)
from .head_map import CLICKS
from .matrix_axes import OVERLAY, clickable, name_axes, seams
from .theme import captioned, figure, letters, scale

ROW = 30  # pixels of a row, while there are few norms
HEIGHTS = (260, 720)  # the picture's size stays between these, so that a page does not jump
LETTER = 7.2  # pixels that a letter of a norm's name takes
MAX_NAME_LETTERS = 32  # letters of a norm's name; of longer names the specific end is kept
MIN_COLOUR_SPREAD = (
    0.01  # of the usual size: colours never spread over less, so that noise stays pale
)


def norm_map(
    trace: Trace,
    statistic: str,
    stack: str,
    *,
    before: Trace | None = None,
    site: int | None = None,
    token: int | None = None,
    dark: bool = False,
    height: int | None = None,
) -> go.Figure:
    """Draw one statistic of every norm and token: rows are norms in execution order.

    Sizes are coloured from 0 to the largest value; means and changes around 0, with symmetric
    limits. The caption gives these limits. A click gives ``[site, token, value]``. Cells without a
    value (no change, or a lost number) cannot be clicked.

    Args:
        trace: The run to show.
        statistic: A name of ``transformer_viz.metrics.residual.norm_statistics.STATISTICS``.
        stack: ``encoder`` or ``decoder``.
        before: Another run on the same tokens; if given, the change since it is drawn.
        site: Number of a norm (a row), to outline.
        token: Number of a token (a column), to outline.
        dark: Use colours for a dark background.
        height: Pixels; if omitted, it follows the number of norms.

    Raises:
        LookupError: No such statistic or stack; the message lists the available ones.
        ValueError: The two runs have different tokens.
    """
    kind = find_statistic(statistic)
    sites, shown = norm_statistic(trace, statistic, stack)
    if before is not None:
        sites, shown = norm_change(before, trace, statistic, stack)
    limits = _limits(trace, kind, stack, shown, before is not None)
    colours = palette(dark)
    names = [_ending(label) for label in norm_labels(before or trace, sites)]
    picture = _frame(names, trace.words_of(stack).labels, dark, height)
    picture.add_trace(_heatmap(shown, limits, colours))
    if shown.size <= CLICKS:
        picture.add_trace(_clicks(shown, picture.layout.height))
    _outline(picture, shown.shape, site, token, colours.accent)
    return captioned(
        picture,
        _caption(kind, stack, limits, before is not None),
        trace,
        before,
    )


def _limits(
    trace: Trace, kind: Statistic, stack: str, shown: np.ndarray, change: bool
) -> tuple[float, float]:
    """Return the limits of the colours: from 0 for sizes, symmetric around 0 otherwise."""
    usual = norm_statistic(trace, "rms" if kind.side == "before" else "output_rms", stack)[1]
    least = MIN_COLOUR_SPREAD * max(float(np.nanmax(usual, initial=0)), 1e-30)
    most = max(least, float(np.nanmax(np.abs(shown), initial=0)))
    return (-most if change or kind.signed else 0.0), most


def _ending(name: str) -> str:
    return name if len(name) <= MAX_NAME_LETTERS else f"…{name[1 - MAX_NAME_LETTERS :]}"


def _frame(
    rows: Sequence[str], columns: Sequence[str], dark: bool, height: int | None
) -> go.Figure:
    picture = figure(dark)
    name_axes(picture, rows, columns)
    needed = len(rows) * ROW + picture.layout.margin.t
    left = 20 + int(LETTER * max(map(letters, rows)))
    picture.update_layout(height=height or int(np.clip(needed, *HEIGHTS)), margin={"l": left})
    return picture


def _heatmap(shown: np.ndarray, limits: tuple[float, float], colours: Palette) -> go.Heatmap:
    return go.Heatmap(
        z=shown.astype(np.float32),
        zmin=limits[0],
        zmax=limits[1],
        colorscale=scale(colours.changes if limits[0] else colours.amounts),
        showscale=False,
        hoverongaps=False,
        **seams(shown),
        hovertemplate="%{x}, %{y}: %{z:.4~g}<extra></extra>",
        **OVERLAY,
    )


def _clicks(shown: np.ndarray, height: float) -> go.Scatter:
    """Return markers over the cells; a click gives the numbers of the norm and the token."""
    site, token = np.nonzero(~np.isnan(shown))
    data = np.stack([site, token, shown[site, token]], axis=1).astype(np.float32)
    size = max(8.0, 0.8 * height / max(len(shown), 1))
    hover = "%{x}, %{y}: %{customdata[2]:.4~g}"
    return clickable(token, site, data, size, hover, **OVERLAY)


def _outline(
    picture: go.Figure, shape: tuple[int, ...], site: int | None, token: int | None, colour: str
) -> None:
    """Draw frames around the chosen norm's row and the chosen token's column."""
    sites, tokens = shape
    frames = []
    if site is not None and 0 <= site < sites:
        frames.append((-0.5, tokens - 0.5, site - 0.5, site + 0.5))
    if token is not None and 0 <= token < tokens:
        frames.append((token - 0.5, token + 0.5, -0.5, sites - 0.5))
    for x0, x1, y0, y1 in frames:
        line = {"color": colour, "width": 2}
        picture.add_shape(type="rect", x0=x0, x1=x1, y0=y0, y1=y1, line=line, layer="above")


def _caption(kind: Statistic, stack: str, limits: tuple[float, float], change: bool) -> str:
    fields = {"stack": called(stack), "title": say(kind.title)}
    shown = say("{stack}: {title} each norm", **fields)
    if change:
        shown = say("{stack}: change of {title} each norm since the clean run", **fields)
    ends = say("colours from {least:.3g} to {most:.3g}", least=limits[0], most=limits[1])
    return " · ".join((shown, ends))
