"""Rows, headings, secondary text and widths, shared by all pages."""

from __future__ import annotations

from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

#: Two columns, the left one with the view.
WIDER_LEFT = (10, 9)
#: Pixels of a control in a row, by its content.
INDEX_WIDTH = 100  # a layer or a head
NUMBER_WIDTH = 130  # a number to type
TOKEN_WIDTH = 170  # a token of the sentence
VALUE_WIDTH = 196  # a value of a configuration, marked as a guess in any language
POSITION_WIDTH = 190  # a token's position, or a pair of dimensions
NAME_WIDTH = 200  # a name among many
FILE_WIDTH = 290  # a file, and how it was chosen
SLIDER_WIDTH = 260  # a number on a slider


def row(
    align: Literal["top", "center", "bottom"] = "top",
    *,
    spread: bool = False,
    fit: bool = False,
    gap: Literal["xsmall", "small", "medium"] = "small",
    key: str | None = None,
    place: DeltaGenerator | None = None,
) -> DeltaGenerator:
    """Return a container whose elements are side by side.

    Args:
        align: Vertical alignment of elements of different height.
        spread: Put the first one at the left end, the last one at the right end.
        fit: Be as wide as the elements, instead of as wide as the page.
        gap: Distance between two elements.
        key: Class of the container in the page, for styles.
        place: Parent of the container; by default the current position.
    """
    return (place or st).container(
        horizontal=True,
        horizontal_alignment="distribute" if spread else "left",
        vertical_alignment=align,
        width="content" if fit else "stretch",
        gap=gap,
        key=key,
    )


def unfolding(label: str, key: str, *, tip: str | None = None) -> DeltaGenerator | None:
    """Draw a button that opens a panel; return the panel while it is open, else None.

    Its elements are drawn only then, since the browser builds them no earlier. A control that is
    built after the run that wrote its value starts at its default, whatever the state contains.
    """
    panel = st.popover(label, key=key, help=tip, on_change="rerun")
    return panel if panel.open else None


def heading(html: str, level: Literal[2, 3] = 2, *, fit: bool = False, what: str = "") -> None:
    """Draw the heading of a card.

    Args:
        html: The heading, with foreign text escaped.
        level: 2 for a card, 3 for a part of one.
        fit: Be as wide as the text, as in a row.
        what: ``data-what`` of the element, by which tests and styles find it.
    """
    about = f' data-what="{what}"' if what else ""
    _html(f'<h{level} class="tv-question"{about}>{html}</h{level}>', fit)


def quiet(html: str, *, fit: bool = False) -> None:
    """Draw secondary text, such as a remark; foreign text in ``html`` must be escaped."""
    _html(quiet_span(html), fit)


def quiet_span(html: str) -> str:
    """Return secondary text within a text."""
    return f'<span class="tv-quiet">{html}</span>'


def _html(html: str, fit: bool) -> None:
    st.html(html, width="content" if fit else "stretch")
