"""Grid of one measure: every head of a block as a cell, layers down, heads across."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import say
from ..charts.labelled_heatmap import add_clicks, labelled_heatmap, name_heads, outline_cell
from ..charts.theme import captioned

ROW = 40  # pixels of a layer


def measure_grid(
    values: np.ndarray,
    whole: float,
    *,
    chosen: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw the heads of one block by one measure: 0 is the background, ``whole`` the full colour.

    A click gives ``[layer, head, value]``; a head without a value stays empty. If any value is
    below 0, the colours are symmetric around 0.

    Args:
        values: ``[layer, head]``, NaN where the measure applies to no row.
        whole: The number at which the colours end.
        chosen: Layer and head of the cell to outline.
        dark: Use colours for a dark background.

    Raises:
        ValueError: Not two axes.
    """
    if values.ndim != 2:
        raise ValueError(f"A grid of heads is [layer, head]; got shape {values.shape}.")
    layers, heads = name_heads(values.shape)
    whole = whole if whole > 0 else 1.0
    low = -whole if (np.nan_to_num(values) < 0).any() else 0.0
    picture = labelled_heatmap(
        values,
        layers,
        heads,
        (low, whole),
        hover="%{y} %{x}: %{z:.3f}",
        row_height=ROW,
        digits=2,
        dark=dark,
    )
    picture.update_layout(margin={"l": 44})
    add_clicks(picture, values, "%{y} %{x}: %{customdata[2]:.3f}", size=0.8 * ROW, empty=True)
    if chosen is not None:
        outline_cell(picture, *chosen, palette(dark).accent)
    caption = say("colours from {low} to {high}", low=f"{low:g}", high=f"{whole:.2f}")
    return captioned(picture, caption)
