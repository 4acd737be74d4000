"""Grid of single patches: the move of the output towards the donor sentence."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...i18n import say
from ..charts.labelled_heatmap import add_clicks, labelled_heatmap, outline_cell, widen_left
from ..charts.theme import captioned

ROW = 44  # pixels of a layer
WHOLE = 1.0  # all of the difference, where the colours end


def swap_grid(
    moved: np.ndarray,
    columns: Sequence[str],
    rows: Sequence[str] | None = None,
    *,
    kept: Collection[tuple[int, int]] = (),
    caption: str | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw patches as a grid: 0 is the background, 1 and -1 the last colours; more looks the same.

    A click gives ``[row, column, value]``; a site that cannot be patched cannot be clicked.

    Args:
        moved: ``[layer, head]`` or ``[layer, token]``: 0 as in the sentence, 1 as in the donor; NaN
            where nothing can be patched.
        columns: Names of heads or tokens.
        rows: Names of layers; if omitted, ``L0`` and so on.
        kept: Cells (row, column) that are an edit of the run, to outline.
        caption: Description of the numbers; if omitted, the meaning of 0 and 1.
        dark: Use colours for a dark background.

    Raises:
        ValueError: Not two axes, or another number of columns.
    """
    if moved.ndim != 2 or moved.shape[1] != len(columns):
        raise ValueError(
            f"Swaps are numbers [layer, column] for {len(columns)} columns; got shape "
            f"{moved.shape}."
        )
    names = [f"L{n}" for n in range(len(moved))] if rows is None else list(rows)
    picture = labelled_heatmap(
        moved,
        names,
        columns,
        (-WHOLE, WHOLE),
        hover="%{y} %{x}: %{z:+.3f}",
        row_height=ROW,
        digits=2,
        dark=dark,
    )
    widen_left(picture, names)
    add_clicks(picture, moved, "%{y} %{x}: %{customdata[2]:+.3f}", size=0.8 * ROW)
    for row, column in kept:
        outline_cell(picture, row, column, palette(dark).accent)
    return captioned(picture, _caption() if caption is None else caption)


def _caption() -> str:
    return say(
        "0: as in this sentence, 1: as in the other · colours from −1 to 1, what lies beyond has "
        "the last one"
    )
