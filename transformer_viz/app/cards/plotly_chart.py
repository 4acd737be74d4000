"""Plotly figure on a page: its question above, its caption below, and its clicks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from math import isfinite
from typing import Any

import streamlit as st

from ...i18n import say
from ...views.charts.theme import without_mark
from ..shell import presenter
from ..ui import layout
from ..ui.text_format import escape_markdown, spoken

STILL = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}


def chart(
    key: str, question: str, draw: Callable[[], Any], on_pick: Callable[[], None] | None = None
) -> None:
    """Draw a figure under its question, or the reason why there is none."""
    layout.heading(question, 3)
    try:
        picture = presenter.enlarged(without_mark(draw()))
    except (ValueError, LookupError) as error:
        st.caption(escape_markdown(spoken(error)))
        return
    caption = picture.layout.meta["caption"]
    st.plotly_chart(
        picture,
        key=key,
        theme=None,
        config=STILL,
        on_select=on_pick or "ignore",
        selection_mode="points",
        alt=picture.layout.meta["alt"],
    )
    layout.quiet(caption)
    _table(key, picture)


def _table(key: str, picture: Any) -> None:
    """Show the same numbers as a table, made on demand."""
    folded = st.expander(say("as a table"), key=f"{key}-table", on_change="rerun")
    if folded.open:
        from ...views.charts.as_table import as_table

        folded.dataframe(as_table(picture))


def clicked(key: str) -> tuple[int, ...]:
    """Return the data of a clicked marker, which may come as list or as dict.

    Empty if the click only cleared the selection.
    """
    points = st.session_state[key].selection.points
    if not points:
        return ()
    data = points[0]["customdata"]
    values = data.values() if isinstance(data, dict) else data
    known = takewhile(lambda value: value is not None and isfinite(value), values)
    return tuple(int(value) for value in known)
