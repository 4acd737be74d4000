"""Mounts of the browser components, with their messages as Python calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeGuard

import streamlit as st
from streamlit.errors import StreamlitAPIException

from ...components import ChipRow, Picked, picked, tokens_data
from ...components.blob import pack
from ...components.bundle import bundle, style
from ...components.ruler import Ruler
from ..engine.turns.priority import PRIORITY

Hear = Callable[[object], None]
NUMBER = 16  # characters of a message id
KEPT = "_heard"  # key of the ids of handled messages
HEARD = 64  # ids remembered
PLACE = '<div class="tv"></div>'
#: For components with a style sheet, which makes them visible: they never show unstyled.
STYLED_PLACE = '<div class="tv" style="visibility: hidden"></div>'


def _component(name: str, css: str | None = None, isolated: bool = True) -> Callable[..., Any]:
    """Register a component by its files, which the browser loads once.

    If this package is not installed, Streamlit does not find them; then their text is sent along
    with each change.
    """
    place = STYLED_PLACE if css else PLACE
    options: dict[str, Any] = {"html": place, "isolate_styles": isolated}
    try:
        mount = st.components.v2.component(
            f"transformer_viz.{name}", js=f"{name}.js", css=css, **options
        )
    except StreamlitAPIException:
        mount = st.components.v2.component(
            f"transformer_viz_{name}",
            js=bundle(f"{name}.js"),
            css=css and style(css),
            **options,
        )

    def shown(**given: Any) -> None:
        PRIORITY.give_way()  # a page draws many, each of which takes some milliseconds
        for word, act in given.items():
            if word.startswith("on_"):
                name = word.removeprefix("on_").removesuffix("_change")
                given[word] = partial(_act_once, given["key"], name, act)
        mount(**given)

    return shown


def _act_once(key: str, name: str, act: Callable[[], None]) -> None:
    """Handle a component's message, unless it was sent before or its component is gone.

    After a lost connection the browser sends a message again; on a slow server the page may not
    have drawn the component by then.
    """
    if key not in st.session_state:
        return
    told = st.session_state[key].get(name)
    numbers = (str(told["id"])[:NUMBER],) if _is_numbered(told) else ()
    heard: tuple[str, ...] = st.session_state.get(KEPT, ())
    if not numbers or numbers[0] not in heard:
        act()
        st.session_state[KEPT] = (*heard, *numbers)[-HEARD:]


def _is_numbered(told: object) -> TypeGuard[dict[str, object]]:
    return isinstance(told, dict) and told.keys() == {"id", "value"}


PICTURE = _component("pictures", "pictures.css")  # one for all: their modules are loaded once
PANEL = _component("panels", isolated=False)  # its HTML uses the page's style sheets


def atlas(
    data: bytes,
    *,
    key: str,
    opened: Hear,
    overlaid: Hear,
    drawn: Hear,
) -> None:
    """Draw all heads. Messages come from a browser and may have any content.

    Args:
        data: Result of `components.atlas_data`.
        key: Key of the component.
        opened: Called with ``[block, layer, head]`` of a chosen head.
        overlaid: Called with the ``[layer, head]`` of all heads to overlay as lines.
        drawn: Called with the view options: ``{"sort", "scale", "ramp", "gamma", "threshold"}``.
    """
    PICTURE(
        data=data,
        key=key,
        on_opened_change=lambda: opened(said(key, "opened")),
        on_overlaid_change=lambda: overlaid(said(key, "overlaid")),
        on_drawn_change=lambda: drawn(said(key, "drawn")),
    )


def head(data: bytes, *, key: str, picked: Hear, zoomed: Hear, drawn: Hear) -> None:
    """Draw the opened head. Messages come from a browser and may have any content.

    Args:
        data: Data of a map, of lines, or of q·k, as named by ``view`` in the header.
        key: Key of the component.
        picked: Called with ``{"row", "column"}``, tokens or None.
        zoomed: Called with ``{"rows", "columns"}``, half-open ranges, or None.
        drawn: Called with the options of the lines: ``{"top", "threshold"}``.
    """
    PICTURE(
        data=data,
        key=key,
        on_picked_change=lambda: picked(said(key, "picked")),
        on_zoomed_change=lambda: zoomed(said(key, "zoomed")),
        on_drawn_change=lambda: drawn(said(key, "drawn")),
    )


def tokens(
    rows: Sequence[ChipRow],
    *,
    key: str,
    dark: bool,
    chosen: Callable[[Picked], None],
    theme: Callable[[bool], None],
    chart: str | None = None,
    sides: tuple[Ruler | None, Ruler | None] = (None, None),
) -> None:
    """Draw sentences as chips, linked with the views of the page.

    Args:
        rows: The sentences.
        key: Key of the component.
        dark: True if this run draws for a dark background.
        chosen: Called with the clicked chip, before the page runs again.
        theme: Called with True if the page is dark, or False, when that differs from ``dark``.
        chart: Key of a Plotly chart to highlight too, if any.
        sides: Sentences along its rows and columns.
    """

    def hear() -> None:
        chip = picked(rows, said(key, "picked"))
        if chip is not None:
            chosen(chip)

    PICTURE(
        data=tokens_data(rows, dark=dark, chart=chart, sides=sides),
        key=key,
        on_picked_change=hear,
        on_theme_change=lambda: theme(said(key, "theme") == "dark"),
    )


def panel(data: bytes, *, key: str, picked: Callable[[object], None] | None = None) -> None:
    """Draw HTML that live frames can replace.

    Args:
        data: A blob with ``html`` in its header, all texts escaped.
        key: Key of the component.
        picked: Called with ``{"row", "column"}`` of the clicked word, each such as
            ``produced:4``, or None.
    """
    hear = (lambda: picked(said(key, "picked"))) if picked else (lambda: None)
    PANEL(data=data, key=key, on_picked_change=hear)


def keys(data: bytes, *, key: str, left: Callable[[], None]) -> None:
    """Draw the keys of presentation mode; ``left`` is called when the user leaves it."""
    PICTURE(data=data, key=key, on_left_change=left)


def inside(data: bytes, *, key: str, stepped: Hear, opened: Hear) -> None:
    """Draw a head's chain. Messages come from a browser and may have any content.

    Args:
        data: Result of `components.inside_data`.
        key: Key of the component.
        stepped: Called with ``{"step"}``, the chosen station.
        opened: Called with ``{"number"}``, the address of the number to expand, or empty.
    """
    PICTURE(
        data=data,
        key=key,
        on_stepped_change=lambda: stepped(said(key, "stepped")),
        on_opened_change=lambda: opened(said(key, "opened")),
    )


def address(data: bytes, *, key: str) -> None:
    """Run the surrounding fragment again whenever the browser's address changes."""
    PICTURE(data=data, key=key, on_moved_change=lambda: None)


def language(words: Sequence[str] = ()) -> None:
    """Mount the page's single-use features: language, letters, links, history and connection.

    After a lost connection it runs the whole page, with the values of all controls.

    Args:
        words: Languages of the model's source and target; an unknown one is empty.
    """
    PANEL(
        data=pack({"part": "language", "seq": 0, "html": "", "words": list(words)}),
        key="language",
        on_back_change=lambda: None,
    )


def slider(data: bytes, *, key: str, moved: Callable[[object], None], width: int) -> None:
    """Draw a slider. ``moved`` is called with ``{"value", "seq", "stroke"}``.

    It is called when the pointer rests or is released, or at each step without live frames.
    """
    PICTURE(data=data, key=key, on_moved_change=lambda: moved(said(key, "moved")), width=width)


def play(data: bytes, *, key: str, moved: Hear, looked: Hear) -> None:
    """Draw a search, step by step. Messages come from a browser and may have any content.

    Args:
        data: Result of `components.play.play_data`.
        key: Key of the component.
        moved: Called with ``{"played", "branch"}`` once the pointer rests.
        looked: Called with ``{"layer", "head", "pooled"}``.
    """
    PICTURE(
        data=data,
        key=key,
        on_moved_change=lambda: moved(said(key, "moved")),
        on_looked_change=lambda: looked(said(key, "looked")),
    )


def said(key: str, name: str) -> object:
    """Return the last message of a component."""
    told: object = st.session_state[key].get(name)
    return told["value"] if _is_numbered(told) else told
