"""Mark of guessed config values above a result, with instructions to settle them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from ...core import guesses as law
from ...i18n import say
from ..session.keys import private
from ..session.state import state
from ..ui import layout

CHECKPOINT = "checkpoint"  # address of the page with the form


def guess_mark(
    *records: law.Record, name: str = "", called: str = "", key: str = "guessed"
) -> None:
    """Draw the mark in a container that always exists, so that elements below keep their position.

    Args:
        records: Runs, manifests or cards of the results below.
        name: The model on the page Checkpoint; without it there is no button to the page.
        called: Display name of the model, if several are shown.
        key: Key of the container; several on one page need different keys.
    """
    guesses = law.guesses_in(*records)
    with st.container(key=key):
        if not guesses:
            return
        with layout.row("center", key=f"{key}-row"):
            st.html(guess_span(guesses, called), width="content")
            panel = layout.unfolding(say("how to settle it"), f"{key}-settle")
            if panel is not None:
                with panel:
                    layout.quiet(escape(law.guess_advice(guesses)))
                    if name:
                        _way(name, key)


def guess_span(guesses: Mapping[str, Any], called: str = "") -> str:
    """Return the mark as HTML."""
    text = law.guess_mark(guesses)
    if called:
        text = say("{model}: {said}", model=called, said=text)
    return f'<span class="tv-badge tv-badge-guess" data-role="guess">{escape(text)}</span>'


def _way(name: str, key: str) -> None:
    opened = st.button(
        say("Open the page Checkpoint"), key=f"{key}-open", on_click=_look_at, args=(name,)
    )
    if opened:
        st.switch_page(private.pages[CHECKPOINT])


def _look_at(name: str) -> None:
    state.checkpoint = name
    del private.stored_run
