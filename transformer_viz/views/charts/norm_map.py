"""What does each norm get and give, word by word?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
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
from .labelled_heatmap import (
    add_clicks,
    labelled_heatmap,
    outline_column,
    outline_row,
    widen_left,
)
from .theme import captioned

ROW = 30  # pixels of a row, while there are few norms
HEIGHTS = (260, 720)  # the picture's size stays between these, so that a page does not jump
LETTER = 7.2  # pixels of a letter of a norm's name
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
    names = [_ending(label) for label in norm_labels(before or trace, sites)]
    columns = trace.words_of(stack).labels
    picture = labelled_heatmap(
        shown.astype(np.float32),
        names,
        columns,
        limits,
        hover="%{x}, %{y}: %{z:.4~g}",
        row_height=ROW,
        heights=HEIGHTS,
        dark=dark,
    )
    widen_left(picture, names, LETTER)
    if height:
        picture.update_layout(height=height)
    size = max(8.0, 0.8 * picture.layout.height / max(len(shown), 1))
    add_clicks(picture, shown, "%{x}, %{y}: %{customdata[2]:.4~g}", size=size)
    if site is not None and 0 <= site < len(names):
        outline_row(picture, site, len(columns), palette(dark).accent)
    if token is not None and 0 <= token < len(columns):
        outline_column(picture, token, len(names), palette(dark).accent)
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


def _caption(kind: Statistic, stack: str, limits: tuple[float, float], change: bool) -> str:
    fields = {"stack": called(stack), "title": say(kind.title)}
    shown = say("{stack}: {title} each norm", **fields)
    if change:
        shown = say("{stack}: change of {title} each norm since the clean run", **fields)
    ends = say("colours from {least:.3g} to {most:.3g}", least=limits[0], most=limits[1])
    return " · ".join((shown, ends))
