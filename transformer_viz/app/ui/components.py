"""Puts the browser components on a page, and turns what they say into plain Python calls."""

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
NUMBER = 16  # letters of the number of what was said
KEPT = "_heard"  # the key of the numbers that were acted on
HEARD = 64  # of so many of these it is known that they were acted on
PLACE = '<div class="tv"></div>'
#: Of a component with a style sheet, which makes it visible: it never shows unstyled.
STYLED_PLACE = '<div class="tv" style="visibility: hidden"></div>'


def _component(name: str, css: str | None = None, isolated: bool = True) -> Callable[..., Any]:
    """A component by its files, which the browser fetches once.

    Where this package was not installed Streamlit does not find them; then their text is sent
    along with each change.
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
    """Act on a component's message, unless it was sent before or its component is gone.

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


PICTURE = _component("pictures", "pictures.css")  # one for all: their modules are fetched once
PANEL = _component("panels", isolated=False)  # its HTML is written for the page's own style


def atlas(
    data: bytes,
    *,
    key: str,
    opened: Hear,
    overlaid: Hear,
    drawn: Hear,
) -> None:
    """All heads; what is heard comes from a browser, so it may be anything.

    Args:
        data: what `components.atlas_data` gave.
        key: the component's own key.
        opened: is called with ``[block, layer, head]`` of the one that was chosen.
        overlaid: with ``[layer, head]`` of each that is to be laid over it as lines.
        drawn: with how it is drawn now: ``{"sort", "scale", "ramp", "gamma", "threshold"}``.
    """
    PICTURE(
        data=data,
        key=key,
        on_opened_change=lambda: opened(said(key, "opened")),
        on_overlaid_change=lambda: overlaid(said(key, "overlaid")),
        on_drawn_change=lambda: drawn(said(key, "drawn")),
    )


def head(data: bytes, *, key: str, picked: Hear, zoomed: Hear, drawn: Hear) -> None:
    """The opened head; what is heard comes from a browser, so it may be anything.

    Args:
        data: of a map, of lines, or of q·k; the header's ``view`` says which.
        key: the component's own key.
        picked: is called with ``{"row", "column"}``, tokens or None.
        zoomed: with ``{"rows", "columns"}``, each from the first to behind the last, or None.
        drawn: with how the lines are drawn now: ``{"top", "threshold"}``.
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
    """Sentences as chips, linked with the pictures of the page.

    Args:
        rows: the sentences.
        key: the component's own key.
        dark: the background that this run draws for.
        chosen: is called with the chip that was clicked, before the page runs again.
        theme: is called with whether the page is really dark, when that is not ``dark``.
        chart: the key of a Plotly chart that lights up too, if there is one.
        sides: whose tokens stand along its rows and columns.
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
    """Ready HTML that live frames can exchange.

    Args:
        data: a blob whose header has the ``html``, all its words escaped.
        key: the component's own key.
        picked: is called with ``{"row", "column"}`` of the word that was clicked, each such as
            ``produced:4``, or None.
    """
    hear = (lambda: picked(said(key, "picked"))) if picked else (lambda: None)
    PANEL(data=data, key=key, on_picked_change=hear)


def keys(data: bytes, *, key: str, left: Callable[[], None]) -> None:
    """The keys of presenter mode and their line; ``left`` is called when the teacher leaves it."""
    PICTURE(data=data, key=key, on_left_change=left)


def inside(data: bytes, *, key: str, stepped: Hear, opened: Hear) -> None:
    """A head's chain; what is heard comes from a browser, so it may be anything.

    Args:
        data: what `components.inside_data` gave.
        key: the component's own key.
        stepped: is called with ``{"step"}``, the station that was gone to.
        opened: with ``{"number"}``, the address of the number whose sum is wanted, or empty.
    """
    PICTURE(
        data=data,
        key=key,
        on_stepped_change=lambda: stepped(said(key, "stepped")),
        on_opened_change=lambda: opened(said(key, "opened")),
    )


def address(data: bytes, *, key: str) -> None:
    """Run the fragment that it stands in again whenever the browser's address changes."""
    PICTURE(data=data, key=key, on_moved_change=lambda: None)


def language(words: Sequence[str] = ()) -> None:
    """Mount what a page does once: its language, letters, links, history and connection.

    After a lost connection it runs the whole page, and the values of all controls come with it.

    Args:
        words: the languages of the model's source and target; an unknown one is empty.
    """
    PANEL(
        data=pack({"part": "language", "seq": 0, "html": "", "words": list(words)}),
        key="language",
        on_back_change=lambda: None,
    )


def slider(data: bytes, *, key: str, moved: Callable[[object], None], width: int) -> None:
    """A slider; ``moved`` is called with ``{"value", "seq", "stroke"}`` when the hand rests or
    lets go, or at each step where there are no live frames."""
    PICTURE(data=data, key=key, on_moved_change=lambda: moved(said(key, "moved")), width=width)


def play(data: bytes, *, key: str, moved: Hear, looked: Hear) -> None:
    """A search, step by step; what is heard comes from a browser, so it may be anything.

    Args:
        data: what `components.play.play_data` gave.
        key: the component's own key.
        moved: is called with ``{"played", "branch"}`` once the hand rests.
        looked: with ``{"layer", "head", "pooled"}``.
    """
    PICTURE(
        data=data,
        key=key,
        on_moved_change=lambda: moved(said(key, "moved")),
        on_looked_change=lambda: looked(said(key, "looked")),
    )


def said(key: str, name: str) -> object:
    """What a component said just now."""
    told: object = st.session_state[key].get(name)
    return told["value"] if _is_numbered(told) else told
