"""Presentation mode: one element on the screen, in letters readable from the back row, and keys.

Folded elements are hidden by `present.css` only: every control still exists with its value, and
is shown again by a key.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from ...components.blob import pack
from ...i18n import say
from ..session import widget_sync
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..ui import components

LETTERS = 22  # pixels
SCALE = LETTERS / 14  # relative to the smallest letters elsewhere, as --tv-scale in `present.css`


def presenting() -> bool:
    """Return True in presentation mode."""
    return bool(state.present)


def button() -> None:
    """Draw the button that enters or leaves presentation mode."""
    st.button(
        say("Leave") if presenting() else say("Present"),
        key="presenting",
        on_click=_turn,
        help=None
        if presenting()
        else say("Large letters and one thing on the screen, for a class; Esc leaves."),
    )


def keys() -> None:
    """Draw the line with the keys of presentation mode, and handle them."""
    if presenting():
        components.keys(pack({"part": "present"}), key="keys", left=_leave)


def enlarged(figure: Any) -> Any:
    """Return a plotly chart with large letters in presentation mode, else unchanged."""
    if not presenting():
        return figure
    margin = figure.layout.margin
    sides = {side: SCALE * margin[side] for side in "lrtb" if margin[side] is not None}
    figure.update_layout(font_size=LETTERS, legend_font_size=LETTERS, margin=sides)
    axis = {"tickfont_size": LETTERS, "title_font_size": LETTERS}
    figure.update_xaxes(**axis).update_yaxes(**axis)
    figure.update_annotations(font_size=LETTERS)
    for words in ({"type": "heatmap"}, {"type": "scatter", "mode": "text"}):  # in and under cells
        figure.update_traces(textfont_size=LETTERS, selector=words)
    if figure.layout.height:
        figure.update_layout(height=1.2 * figure.layout.height)
    return figure


def steps(scene: Scene) -> None:
    """Draw the buttons for the previous and next head of the block in presentation mode."""
    if not presenting():
        return
    layers, heads = scene.now.thumbnail(scene.place.map_name).shape[:2]
    for sign, name, by in (("‹", "step-back", -1), ("›", "step-on", 1)):
        st.button(sign, key=name, on_click=_step, args=(layers, heads, by))


def _step(layers: int, heads: int, by: int) -> None:
    """Select the next head from the one shown last: the lists may still have an older one."""
    shown = private.kept["layer"] * heads + private.kept["head"]
    layer, head = divmod((shown + by) % (layers * heads), heads)
    widget_sync.choose(layer=layer, head=head)


def _turn() -> None:
    state.present = not presenting()


def _leave() -> None:
    state.present = False
