"""Active edits as removable chips; undo, redo, and reset."""

from __future__ import annotations

from html import escape

import streamlit as st

from ...core.interventions import BlockEdges, Edit, Swap
from ...core.sites import MAPS, map_name
from ...core.trace import Trace
from ...i18n import join_words, mark, say
from ...metrics.attention.word_merging import produced_by_row
from ..session import changes
from ..session.scene import Scene
from ..ui import layout
from ..ui.text_format import escape_markdown

NOTHING = mark("nothing is changed: this is the model as trained")


def ways_back(*, disabled: bool) -> None:
    """Draw the buttons to undo and redo one step, and to reset all edits."""
    history = changes.history()
    st.button(say("↶ undo"), key="undo", on_click=changes.undo, disabled=not history.past)
    st.button(say("↷ redo"), key="redo", on_click=changes.redo, disabled=not history.future)
    st.button(say("back to clean"), key="clean", on_click=changes.clean, disabled=disabled)


def chips(scene: Scene, hint: str) -> None:
    """Draw the active edits as text; a click removes one. The space is reserved when empty.

    Args:
        scene: State of the screen.
        hint: A suggestion for new users; the browser shows it until a slider was moved once.
    """
    with layout.row("center", key="chips", fit=True):
        if not scene.changes:
            layout.quiet(
                f'<span class="tv-hint">{escape(hint)}</span>'
                f'<span class="tv-as-trained">{escape(say(NOTHING))}</span>'
            )
        for number, edit in enumerate(scene.changes):
            text = escape_markdown(said(edit, scene.before))
            st.button(f"{text} ✕", key=f"edit-{number}", on_click=_remove, args=(edit,))


def said(edit: Edit, trace: Trace) -> str:
    """Return an edit as text, with its key numbers as tokens."""
    if isinstance(edit, Swap):
        named = edit.named(_queries(edit, trace))
        return say("{place}: {change}", place=edit.place, change=named)
    decoder = (edit.stack, edit.block) == MAPS["decoder"]
    keys = trace.tokens("target" if decoder else "source").labels
    if edit.block is None and edit.stack != "encoder":  # keys of both sentences: numbers alone
        return edit.describe()
    if not isinstance(edit, BlockEdges):
        return edit.describe(keys)
    rows = edge_rows(edit, trace)
    links = join_words(
        say("“{query}” → “{key}”", query=at(rows, query), key=at(keys, key))
        for query, key in edit.edges
    )
    return say("{place}: {links} cut", place=edit.place, links=links)


def _queries(edit: Swap, trace: Trace) -> tuple[str, ...] | None:
    """Return the row labels of a patch; None if it applies to both sentences."""
    if edit.stack is None:
        return None
    beside = edit.stack == "decoder" and trace.target is not None
    return trace.tokens("target" if beside else "source").labels


def edge_rows(edit: BlockEdges, trace: Trace) -> tuple[str, ...]:
    """Return the labels of the rows of an edge's queries."""
    name = map_name(edit.stack or "decoder", edit.block or "self")
    said = produced_by_row(trace)
    if name == "encoder" or said is None:
        return trace.source.labels
    return said.labels


def at(labels: tuple[str, ...], number: int) -> str:
    """Return a token's label, or its number if the sentence is shorter."""
    return labels[number] if number < len(labels) else say("word {number}", number=number)


def _remove(edit: Edit) -> None:
    changes.change(changes.intervention().without(edit))
