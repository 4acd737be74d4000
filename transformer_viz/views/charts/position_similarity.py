"""How alike are the positions of two words?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.trace import Trace
from ...i18n import say
from ...metrics.positions.positions import (
    position_label,
    position_names,
    position_rows,
    run_note,
    similarity,
)
from .labelled_heatmap import CLICKS, OVERLAY, clickable, labelled_heatmap, outline_row
from .theme import captioned

ROW = 24  # pixels of a row, while the sentence is short enough
HEIGHTS = (340, 560)


def position_similarity(
    trace: Trace, name: str, *, token: int | None = None, dark: bool = False
) -> go.Figure:
    """Draw every position against every other: 1 for equal directions of their rows, -1 opposite.

    A click gives the row first: ``[token, cosine]``.

    Args:
        trace: The run to show.
        name: A key of ``trace.positions``.
        token: A position to outline.
        dark: Use colours for a dark background.

    Raises:
        LookupError: The trace has no positions of this name; the message lists those it has.
        ValueError: A bias, which has no row for each position, or a table of zeros.
    """
    rows = position_rows(trace, name)
    if not rows.any():
        raise ValueError(
            say(
                "Every value of this table is zero: nothing is added, so no place differs from "
                "another."
            )
        )
    alike = similarity(rows)
    names = position_names(trace, name, len(alike))
    picture = labelled_heatmap(
        alike.astype(np.float32),
        names,
        names,
        (-1, 1),
        hover=say("%{y} and %{x}: %{z:.3f}"),
        row_height=ROW,
        heights=HEIGHTS,
        dark=dark,
    )
    picture.update_layout(hoverdistance=-1)
    if alike.size <= CLICKS:
        picture.add_trace(_clicks(alike))
    if token is not None and 0 <= token < len(names):
        outline_row(picture, token, len(names), palette(dark).ink)
    caption = say(
        "{name}: cosine of two rows, from −1 (opposite) over 0 (the background) to 1 (the same); "
        "no word is looked at, only where it stands",
        name=position_label(name),
    )
    return captioned(picture, caption + run_note(trace, name), trace)


def _clicks(alike: np.ndarray) -> go.Scatter:
    row, column = np.indices(alike.shape).reshape(2, -1)
    data = np.stack([row, alike.reshape(-1)], axis=1).astype(np.float32)
    hover = say("%{y} and %{x}: %{customdata[1]:.3f}")
    return clickable(column, row, data, 6, hover, **OVERLAY)
