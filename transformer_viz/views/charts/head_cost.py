"""Grid of the extra bits that a text costs without each head."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import say
from .matrix_axes import OVERLAY, name_axes
from .theme import captioned, figure, scale

ROW = 44  # pixels of a layer
WRITTEN = 12  # heads in a row whose numbers are written into their cells


def head_cost(
    bits: np.ndarray,
    limit: float | None = None,
    *,
    caption: str | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw the bits that a text costs more without a head: a row per layer, a column per head.

    Colours go from -limit to limit around 0, which has the background's colour. Below 0 the text
    became more probable.

    Args:
        bits: ``[layer, head]``; NaN where a layer has no such head.
        limit: End of the colour scale; if omitted, the largest absolute value.
        caption: Description of the numbers; if omitted, the extra cost of the held-out text.
        dark: Use colours for a dark background.

    Raises:
        ValueError: Not two axes, or no number at all.
    """
    if bits.ndim != 2 or not np.isfinite(bits).any():
        raise ValueError(f"Costs of heads are numbers [layer, head]; got shape {bits.shape}.")
    end = limit or float(np.nanmax(np.abs(bits))) or 1.0
    layers, heads = bits.shape
    picture = figure(dark)
    name_axes(picture, [f"L{n}" for n in range(layers)], [f"H{n}" for n in range(heads)])
    picture.update_layout(height=layers * ROW + picture.layout.margin.t + 8, xaxis={"tickangle": 0})
    colours = palette(dark)
    picture.add_trace(
        go.Heatmap(
            z=bits,
            zmin=-end,
            zmax=end,
            colorscale=scale(colours.changes),
            showscale=False,
            hoverongaps=False,
            xgap=2,
            ygap=2,
            texttemplate="%{z:.1f}" if heads <= WRITTEN else None,
            textfont={"size": 14},
            hovertemplate="%{y} %{x}: %{z:+.2f}<extra></extra>",
            **OVERLAY,
        )
    )
    return captioned(picture, _caption(end) if caption is None else caption)


def _caption(end: float) -> str:
    return say(
        "bits more that the held text costs without this head · colours from −{end:.3g} to "
        "{end:.3g}",
        end=end,
    )
