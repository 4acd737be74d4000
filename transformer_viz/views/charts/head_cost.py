"""Grid of the extra bits that a text costs without each head."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...i18n import say
from .labelled_heatmap import labelled_heatmap, name_heads
from .theme import captioned

ROW = 44  # pixels of a layer


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
    layers, heads = name_heads(bits.shape)
    picture = labelled_heatmap(
        bits,
        layers,
        heads,
        (-end, end),
        hover="%{y} %{x}: %{z:+.2f}",
        row_height=ROW,
        digits=1,
        dark=dark,
    )
    picture.update_layout(xaxis={"tickangle": 0})
    return captioned(picture, _caption(end) if caption is None else caption)


def _caption(end: float) -> str:
    return say(
        "bits more that the held text costs without this head · colours from −{end:.3g} to "
        "{end:.3g}",
        end=end,
    )
