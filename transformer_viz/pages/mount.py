"""Puts the browser components on a page, and turns what they say into plain Python calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from ..components import (
    ChipRow,
    Picked,
    heads_data,
    heads_height,
    picked,
    script,
    style,
    tokens_data,
)
from ..components.heads import CHART, Groups
from ..records import Trace

HEADS = st.components.v2.component(
    "transformer_viz_heads",
    html="""<div class="tv-heads">
<div class="frame"><div class="sheet"><div class="names"></div><div class="layers"></div>
<div class="body"><canvas class="cells"></canvas><canvas class="light"></canvas>
<div class="tiles" role="toolbar"></div></div></div></div>
<div class="tip" aria-hidden="true"></div></div>""",
    css=style("heads"),
    js=script("heads"),
)
TOKENS = st.components.v2.component(
    "transformer_viz_tokens",
    html='<div class="tv-tokens"></div>',
    css=style("tokens"),
    js=script("tokens"),
)


def heads(
    trace: Trace,
    block: str,
    *,
    key: str,
    opened: Callable[[int, int], None],
    before: Trace | None = None,
    selected: tuple[int, int] = (0, 0),
    rows: Groups | None = None,
    columns: Groups | None = None,
    chart: str = CHART,
) -> None:
    """The overview of all heads; a click calls ``opened(layer, head)`` before the page runs again.

    The other words are those of :func:`transformer_viz.components.heads_data`, which raises the
    same errors.
    """
    data = heads_data(
        trace, block, before=before, selected=selected, rows=rows, columns=columns, chart=chart
    )
    layers, count = trace.thumbnail(block).shape[:2]

    def hear() -> None:
        match _said(key, "opened"):
            case [int(layer), int(head)] if 0 <= layer < layers and 0 <= head < count:
                opened(layer, head)

    HEADS(data=data, key=key, height=heads_height(layers), on_opened_change=hear)


def tokens(
    rows: Sequence[ChipRow],
    *,
    key: str,
    chart: str,
    dark: bool,
    chosen: Callable[[Picked], None],
    theme: Callable[[bool], None],
) -> None:
    """Sentences as chips, linked with the Plotly chart of key ``chart`` and with its tiles.

    Args:
        rows: the sentences.
        key: the component's own key.
        chart: the key of the chart whose rows and columns are lit.
        dark: the background that this run draws for.
        chosen: is called with the chip that was clicked, before the page runs again.
        theme: is called with whether the page is really dark, when that is not ``dark``.
    """

    def hear() -> None:
        chip = picked(rows, _said(key, "picked"))
        if chip is not None:
            chosen(chip)

    TOKENS(
        data=tokens_data(rows, dark=dark, chart=chart),
        key=key,
        on_picked_change=hear,
        on_theme_change=lambda: theme(_said(key, "theme") == "dark"),
    )


def _said(key: str, name: str) -> object:
    """What a component said just now."""
    return st.session_state[key].get(name)
