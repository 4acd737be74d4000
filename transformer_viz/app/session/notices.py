"""Messages about unusable values of a link, and indices clamped to their range."""

from __future__ import annotations

import streamlit as st

from ...i18n import say
from .keys import private


def complaints() -> list[str]:
    """Return the messages above the page."""
    return private.complaints


def complain(sentence: str) -> None:
    """Show a message above the page until the user changes something."""
    private.complaints = [*private.complaints, sentence]


def about_link(sentence: str) -> None:
    """Show a message if the link caused it; leftovers of an earlier choice are silent."""
    if private.fresh:
        complain(sentence)


def mark_answered() -> None:
    """Note that the page is drawn: from now on, missing values do not come from the link."""
    private.fresh = False


def clamp_index(name: str, count: int, what: str) -> int:
    """Clamp an index to its range and return it.

    A message is shown only for an index from the link. Indices left behind by another sentence,
    block or page are clamped silently.
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
    if private.counts.get(name) != count:  # a slider of another length is a new widget
        private.counts = private.counts | {name: count}
        rewrite_widget(name)
    return int(state[name])


def rewrite_widget(name: str) -> None:
    """Write a choice again after its option labels may have changed.

    The browser keeps the old labels until the value is written.
    """
    st.session_state[name] = st.session_state[name]
