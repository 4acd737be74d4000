"""Which words does this head look at?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.map_cells import (
    Cells,
    cells,
    coarse_cells,
    is_tiled,
    refuse_difference,
    row_meaning,
)
from ...metrics.attention.map_difference import appended, difference
from ...metrics.attention.thumbnails import largest_change
from .labelled_heatmap import CLICKS, OVERLAY, clickable, hatch, labelled_heatmap, outline_row
from .theme import captioned

ROW = 27  # pixels of a row, while the sentence is short enough
HEIGHTS = (340, 720)  # the picture's size stays between these, so that a page does not jump
COARSE = 256  # cells along a side of a text too long for its matrix


def head_map(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    before: Trace | None = None,
    most: float = 1.0,
    token: int | None = None,
    words: bool = False,
    special: bool = True,
    dark: bool = False,
    height: int | None = None,
) -> go.Figure:
    """Draw one head as a map: rows attend to columns, weights on hover, masked cells hatched.

    For a run with tiles of more than 1,024 tokens, each cell is the largest of many weights.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0.
        before: Another run on the same tokens, or on the first of them. If given, the change since
            it is drawn. A column missing from it counts as 0, a new row stays empty.
        most: The weight at the dark end of the colours; larger weights look the same.
        token: A row of the model, to outline.
        words: Merge pieces to whole words.
        special: Show start and end tokens too.
        dark: Use colours for a dark background.
        height: Pixels; if omitted, it follows the number of rows.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: The two runs have different tokens, or the earlier one has more.
    """
    if is_tiled(trace):
        refuse_difference(before)
        now, was = coarse_cells(trace, block, layer, head, COARSE), None
    else:
        now = cells(trace, block, layer, head, words=words, special=special)
        was = before and cells(before, block, layer, head, words=words, special=special)
    shown = difference(now, was) if was else _amounts(now)
    colours = palette(dark)
    limits = (0.0, most)
    if was:
        largest = largest_change(shown)
        limits = (-largest, largest)
    picture = labelled_heatmap(
        shown,
        now.rows.labels,
        now.columns.labels,
        limits,
        hover="%{y} → %{x}: %{z:.4f}",
        row_height=ROW,
        heights=HEIGHTS,
        dark=dark,
    )
    if height:
        picture.update_layout(height=height)
    if now.masked.any():
        picture.add_trace(hatch(now.masked, colours.hatch))
    if shown.size <= CLICKS:
        old = len(was.rows) if was else len(now.rows)
        picture.add_traces(_clicks(shown, now, old, picture.layout.height))
    row = now.row_of(token)
    if row is not None:
        outline_row(picture, row, len(now.columns), colours.accent)
    note = " ".join(filter(None, (now.note, appended(now, was) if was else "")))
    return captioned(
        picture,
        _caption(trace, block, layer, head, None if was else most, note),
        trace,
        before,
    )


def _amounts(now: Cells) -> np.ndarray:
    return np.where(now.masked, np.nan, now.weights).astype(np.float32)


def _clicks(shown: np.ndarray, now: Cells, old: int, height: float) -> list[go.Scatter]:
    """Return markers over the cells; a click gives the model's row, the column and the value.

    The hover text of cells without a number gives the reason: masked, or (from row ``old`` on) no
    such row in the earlier run.
    """
    first = np.array([tokens[0] for tokens in now.members])
    size = max(8.0, 0.8 * height / max(len(shown), 1))
    empty = np.isnan(shown)
    fresh = empty & ~now.masked & (np.arange(len(shown)) >= old)[:, None]
    kinds = {
        "%{y} → %{x}: %{customdata[2]:.4f}": ~empty,
        say("%{y} may not look at %{x} (masked)"): empty & ~fresh,
        say("%{y} → %{x}: this row was not there before"): fresh,
    }
    found = []
    for hover, kind in kinds.items():
        query, key = np.nonzero(kind)
        data = np.stack([first[query], key, np.nan_to_num(shown[kind])], axis=1).astype(np.float32)
        found.append(clickable(key, query, data, size, hover, **OVERLAY))
    return found


def _caption(trace: Trace, block: str, layer: int, head: int, most: float | None, note: str) -> str:
    """Return the caption: site, direction, colour scale and regrouping."""
    shown = say("change since the clean run")
    if most is not None:
        shown = say("colours from 0 to {most:.2g}", most=most)
    parts = (f"{called(block)} L{layer} H{head}", row_meaning(trace, block), shown, note)
    return " · ".join(filter(None, parts))
