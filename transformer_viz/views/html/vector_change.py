"""How far did each output vector move when the run was changed?"""

from __future__ import annotations

from html import escape

import pandas as pd

from ...core.palette import Palette, palette
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.output.run_changes import vector_changes
from .picture import Picture, noted

HEIGHT = 46  # pixels of the longest bar
CLEAN = mark(
    "Length of each output vector. Change something: how far each of them moves then stands here."
)
CHANGED = mark(
    "How far each output vector moved (the length of the difference), and how long it was before. "
    "One scale for all bars."
)


def vector_change(
    before: Trace, after: Trace | None = None, stack: str = "encoder", *, dark: bool = False
) -> Picture:
    """Return the length of every output vector, or of its change, as small bars.

    Args:
        before: The clean run of a model that outputs vectors.
        after: A changed run on the same input; if omitted, the vectors' lengths are shown.
        stack: ``encoder`` or ``decoder``: the stack whose tokens the output vectors belong to.
        dark: Use colours for a dark background.

    Raises:
        LookupError: A run without output vectors and without hidden states.
        ValueError: Runs on different inputs.
    """
    table = vector_changes(before, after or before, stack)
    colours = palette(dark)
    column = "length_before" if after is None else "change"
    most = float(table[column].max()) or 1.0
    tokens = "".join(_token(row, column, most, colours) for _, row in table.iterrows())
    caption = say(CLEAN if after is None else CHANGED)
    style = (
        "display:flex;flex-wrap:wrap;gap:14px 10px;font-variant-numeric:tabular-nums;"
        f"color:{colours.ink};font-size:calc(14px * var(--tv-scale, 1));line-height:1.35"
    )
    html = f'<div role="list" aria-label="{caption}" style="{style}">{tokens}</div>'
    return noted(html, caption, before, after)


def _token(row: pd.Series, column: str, most: float, colours: Palette) -> str:
    changed = column == "change"
    tall = max(1, round(HEIGHT * float(row[column]) / most))
    colour = colours.warm if changed else colours.accent
    bar = f"width:22px;height:{tall}px;background:{colour};border-radius:2px 2px 0 0"
    length = say("of {length:.2f}", length=row["length_before"])
    of = f'<div style="color:{colours.quiet}">{length}</div>'
    return (
        f'<div role="listitem" style="min-width:58px;text-align:center">'
        f'<div aria-hidden="true" style="height:{HEIGHT}px;display:flex;'
        f'justify-content:center;align-items:flex-end"><div style="{bar}"></div></div>'
        f"<div>{escape(str(row['token']))}</div>"
        f"<div>{row[column]:.2f}</div>{of if changed else ''}</div>"
    )
