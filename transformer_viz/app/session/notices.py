"""Sentences about what the link asked for and could not have, and indices brought into range."""

from __future__ import annotations

import streamlit as st

from ...i18n import say
from .keys import private


def complaints() -> list[str]:
    """The sentences that stand above the page."""
    return private.complaints


def complain(sentence: str) -> None:
    """Show a sentence above the page until the visitor has changed something."""
    private.complaints = [*private.complaints, sentence]


def about_link(sentence: str) -> None:
    """Show a sentence if the link asked for this; what an earlier choice left behind is silent."""
    if private.fresh:
        complain(sentence)


def mark_answered() -> None:
    """Note that a page stands: what is not there from now on was not asked for by the link."""
    private.fresh = False


def clamp_index(name: str, count: int, what: str) -> int:
    """Bring a number into the range that there is here.

    A number of the link that is not there is said. What another sentence, block or page has left
    behind is not: nobody asked for it here.
    """
    state = st.session_state
    value = state[name]
    if value is None or not 0 <= value < count:
        asked = private.fresh and value is not None
        if asked:
            complain(
                say(
                    "There is no {what} {value} here; there are 0 to {last}. {What} 0 is shown.",
                    what=say(what),
                    value=value,
                    last=count - 1,
                    What=say(what).capitalize(),
                )
            )
        state[name] = 0 if asked or value is None else max(0, count - 1)
    if private.counts.get(name) != count:  # a slider of another length is a new one, at its start
        private.counts = private.counts | {name: count}
        rewrite_widget(name)
    return int(state[name])


def rewrite_widget(name: str) -> None:
    """Write a choice again whose options may bear other words now.

    The browser keeps the words that it showed until the value is written.
    """
    st.session_state[name] = st.session_state[name]
