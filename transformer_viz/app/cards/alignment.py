"""Alignment on a page: its drawing, walk measures, gold error rate, and files."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd
import streamlit as st

from ...components.word_links import word_links_data
from ...core.trace import Trace
from ...i18n import join_words, say
from ...metrics.alignment.aligning import Alignment
from ...metrics.alignment.error_rate import Gold, gold_of
from ...metrics.alignment.judging import Place, judged_table
from ...views.csv_text import csv_text
from ...views.html.measure_cells import measure_rows
from ..session import widget_sync
from ..session.keys import private
from ..session.state import state
from ..session.url_values import WRITTEN
from ..ui import components, layout
from ..ui.text_format import escape_markdown, spoken
from .downloads import card_file, text_file
from .head_card import take_drawing

GOLD = "align-gold"  # widget key of the typed gold links
LISTED = 6  # maps closest to the gold links that are listed
SHIFTS = {"out": "AWO", "in": "AWI"}


def called(name: str) -> str:
    """Return the display name of a map: ``""`` all heads, ``"1"`` a layer, ``"1.3"`` a head."""
    layer, _, head = name.partition(".")
    if not layer:
        return say("all heads, mean")
    return f"L{layer} H{head}" if head else say("all heads of L{layer}, mean", layer=layer)


def place_of(name: str) -> Place:
    """Parse the name of a map to a site."""
    return Place(*map(int, filter(None, name.split("."))))


def drawing(trace: Trace, found: Alignment) -> None:
    """Draw the words of both sentences with lines between them."""
    data = word_links_data(
        trace,
        found,
        picked=private.aligned_picked,
        top=state.top,
        threshold=state.threshold,
        seq=private.frame_number,
    )
    components.head(
        data, key="align-view", picked=_pick, zoomed=lambda said: None, drawn=take_drawing
    )


def _pick(said: object) -> None:
    """Store a clicked word as highlighted, or clear the highlight."""
    match said:
        case {"row": (int() | None) as row, "column": (int() | None) as column}:
            private.aligned_picked = (row, column)


def unread(found: Alignment) -> str:
    """Return a sentence about the source words with little attention."""
    if not np.isfinite(found.shares).any():
        return say("No target word looks at a source word: their weight is on special tokens.")
    if not found.unread:
        return say("No source word is left out: each gets a tenth of its fair share or more.")
    words = join_words(say("“{word}”", word=found.source[word]) for word in found.unread)
    return say(
        "Read by nobody: {words}. Together the target words give each less than a tenth of its "
        "fair share.",
        words=words,
    )


def walk(found: Alignment) -> None:
    """Show monotonicity, diagonality and coverage, each with chance and number of rows."""
    layout.heading(escape(say("How does it walk through the source?")), 3)
    row = {
        name: value
        for walk in found.walks
        for name, value in (
            (walk.name, walk.value),
            (f"{walk.name}_chance", walk.chance),
            (f"{walk.name}_rows", walk.rows),
        )
    }
    st.html(measure_rows(pd.Series(row), [walk.name for walk in found.walks], what="walk"))
    layout.quiet(
        escape(
            say(
                "Orange: what a head gets that looks everywhere alike. One sentence has no "
                "interval; transformer-viz align measures any number."
            )
        )
    )


def judged_by_gold(trace: Trace, found: Alignment) -> None:
    """Show the error rate against pasted gold links, of this map and of all maps."""
    layout.heading(escape(say("How close is it to links drawn by people?")), 3)
    _gold_boxes()
    gold = state.gold.strip()
    if not gold:
        layout.quiet(
            escape(
                say(
                    "Paste a line such as 0-0 1-2 3p4 (source word, target word; p: possible, not "
                    "sure). The words and their numbers:"
                )
            )
        )
    layout.quiet(_numbered(found.source) + "<br>" + _numbered(found.target))
    if not gold:
        return
    try:
        links = gold_of(gold, int(state.gold_from_one))
        counts = found.counts(links)
    except ValueError as error:
        st.warning(escape_markdown(spoken(error)))
        return
    said = say(
        "alignment error rate {rate}: {found} links found, {sure} sure in the gold; of those found "
        "{right} are sure, {possible} at least possible",
        rate=_rate(counts.error_rate),
        found=counts.found,
        sure=counts.sure,
        right=counts.right_sure,
        possible=counts.right_possible,
    )
    st.html(f'<p class="tv-say" data-what="error-rate">{escape(said)}</p>')
    _ranked(trace, links)


def _gold_boxes() -> None:
    widget_sync.show({GOLD: state.gold})
    with layout.row("bottom"):
        st.text_input(
            say("gold links"),
            key=GOLD,
            max_chars=WRITTEN,
            placeholder="0-0 1-2 3p4",
            on_change=_typed,
            width=300,
        )
        st.toggle(say("counted from 1"), key="gold_from_one")


def _typed() -> None:
    """Store typed gold links, unless the browser only repeats a replaced value (callback)."""
    text = " ".join(str(st.session_state[GOLD]).split())
    widget_sync.moved(GOLD, lambda: setattr(state, "gold", text))


def _numbered(words: tuple[str, ...]) -> str:
    first = int(state.gold_from_one)
    return " · ".join(f"{n}&nbsp;{escape(word)}" for n, word in enumerate(words, first))


def _rate(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "–"


def _ranked(trace: Trace, gold: Gold) -> None:
    """List the maps closest to the gold links; with one sentence, many have the same rate."""
    table = judged_table(trace, gold)
    rows = "".join(
        f"<tr><th>{escape(called(_name(row)))}</th><td>{SHIFTS[row.shift]}</td>"
        f"<td>{_rate(row.error_rate)}</td></tr>"
        for row in table.head(LISTED).itertuples()
    )
    titles = (say("cross-attention of"), say("row"), say("error rate"))
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    st.html(
        f'<div class="tv-heads" data-what="ranked"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    layout.quiet(
        escape(
            say(
                "The closest {shown} of {all}. AWO: the row that writes the word, AWI: the row "
                "that reads it. One sentence is little: transformer-viz align --gold asks many.",
                shown=min(LISTED, len(table)),
                all=len(table),
            )
        )
    )


def _name(row: object) -> str:
    parts = [getattr(row, "layer", None), getattr(row, "head", None)]
    return ".".join(str(part) for part in parts if not pd.isna(part))


def take(found: Alignment) -> None:
    """Show the links as Pharaoh text, as a table, and the run card."""
    layout.heading(escape(say("The links to take away")), 3)
    st.code(found.pharaoh().strip() or " ", language=None, wrap_lines=True)
    layout.quiet(
        escape(say("Pharaoh text: source word, target word, both from 0, as fast_align writes it."))
    )
    with layout.row():
        text_file("Pharaoh", found.pharaoh(), "links.pharaoh", key="take-links.pharaoh")
        text_file("CSV", csv_text(found.links, found.card), "links.csv", key="take-links.csv")
        card_file(found.card, "links")
