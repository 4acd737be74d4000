"""Small attention map of one head and one sentence."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from ...core.palette import palette
from ...i18n import say

CELL = 18  # pixels of a token, so that its name stays readable
MOST = 24  # tokens of a side that are drawn
LETTERS = 12  # of a name that are shown


def small_map(
    weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], *, dark: bool = False
) -> str:
    """Return a map as HTML: tokens on both sides, cells from the background to the full colour.

    Colours go up to the map's largest weight. For long sentences only the first tokens are drawn.

    Args:
        weights: ``[row, column]``; rows attend to columns.
        rows: Names of the rows.
        columns: Names of the columns.
        dark: Use colours for a dark background.

    Raises:
        ValueError: The names do not match the number of rows or columns.
    """
    if weights.shape != (len(rows), len(columns)):
        raise ValueError(
            f"A map of shape {weights.shape} has other names: {len(rows)} rows, "
            f"{len(columns)} columns."
        )
    shown = np.nan_to_num(weights)[:MOST, :MOST]
    across = "".join(f"<span>{_short(name)}</span>" for name in columns[:MOST])
    down = "".join(f"<span>{_short(name)}</span>" for name in rows[:MOST])
    size = f"width:{CELL * shown.shape[1]}px;height:{CELL * shown.shape[0]}px"
    left = max(len(rows), len(columns)) > MOST
    more = say("the first {count} words", count=MOST)
    told = escape(_said(shown, rows, columns))
    note = f'<p class="tv-quiet">{escape(more)}</p>' if left else ""
    return (
        f'<div class="tv-small"><div class="tv-across">{across}</div>'
        f'<div class="tv-down">{down}</div>'
        f'<img src="{_picture(shown, dark)}" style="{size}" alt="{told}">'
        f"</div>{note}"
    )


def _short(name: str) -> str:
    return escape(name if len(name) <= LETTERS else name[: LETTERS - 1] + "…")


def _said(shown: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Return the strongest cell as text, for screen readers."""
    if not shown.size:
        return ""
    row, column = np.unravel_index(int(shown.argmax()), shown.shape)
    return say(
        "“{row}” looks most at “{column}”: {weight}",
        row=rows[int(row)],
        column=columns[int(column)],
        weight=f"{shown[row, column]:.2f}",
    )


def _picture(shown: np.ndarray, dark: bool) -> str:
    """Return the cells as a PNG data URL, one pixel per cell."""
    stops = np.array([_rgb(colour) for colour in palette(dark).amounts], float)
    parts = np.clip(shown / (shown.max() or 1), 0, 1) * (len(stops) - 1)
    places = np.arange(len(stops))
    colours = np.stack([np.interp(parts, places, stops[:, n]) for n in range(3)], axis=-1)
    file = io.BytesIO()
    Image.fromarray(colours.round().astype(np.uint8)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
