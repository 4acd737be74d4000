"""Rows, headings, quiet words and widths, as every page has them."""

from __future__ import annotations

from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

#: Two columns of which the left one holds the picture.
WIDER_LEFT = (10, 9)
#: Pixels of a control in a row, by what is chosen with it.
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
    """A container whose elements stand side by side.

    Args:
        align: where elements of different height stand.
        spread: the first one stands at the left end, the last one at the right end.
        fit: be as wide as the elements need, instead of as wide as the page.
        gap: the room between two elements.
        key: the container's class in the page, for styles.
        place: where the container stands; left out, where the script is.
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
    """A button with a panel that it opens; the panel while it is open, else None.

    What stands in it is drawn only then. The browser builds it no earlier, and a control that is
    built after the run that wrote its value begins at its default, whatever the state says.
    """
    panel = st.popover(label, key=key, help=tip, on_change="rerun")
    return panel if panel.open else None


def heading(html: str, level: Literal[2, 3] = 2, *, fit: bool = False, what: str = "") -> None:
    """The question that a card answers.

    Args:
        html: the question; what is not ours in it is escaped already.
        level: 2 for a card, 3 for a part of one.
        fit: be as wide as the words, as in a row.
        what: ``data-what`` of the element, by which tests and styles find it.
    """
    about = f' data-what="{what}"' if what else ""
    _html(f'<h{level} class="tv-question"{about}>{html}</h{level}>', fit)


def quiet(html: str, *, fit: bool = False) -> None:
    """Words that stand back, such as a remark; what is not ours in ``html`` is escaped already."""
    _html(quiet_span(html), fit)


def quiet_span(html: str) -> str:
    """Words that stand back, within a text."""
    return f'<span class="tv-quiet">{html}</span>'


def _html(html: str, fit: bool) -> None:
    st.html(html, width="content" if fit else "stretch")
