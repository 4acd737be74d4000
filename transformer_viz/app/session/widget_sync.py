"""Moves of controls: told apart from values that a browser sends because it has not heard yet.

What a control shows follows the selected head, so Python writes it. Until the browser has heard of
that, it sends the old value along with whatever is moved next, and Streamlit takes it for a move.
A message is caused by one move: of several, those that repeat what was just written over are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from . import url_state
from .keys import private


def show(wanted: Mapping[str, Any]) -> None:
    """Let controls show these values.

    A value is written only where it differs, or where the browser has no such control yet: writing
    one back that the visitor has just moved on from would pull the slider from under the hand.
    """
    state = st.session_state
    for name, value in wanted.items():
        if state.get(name) != value:
            private.echoes = private.echoes | {name: state.get(name)}
            state[name] = value
        elif name not in private.seen:  # a new control, which would begin at its own default
            state[name] = value


def choose(**values: Any) -> None:
    """Write choices of the link that have a control of their own as well.

    Until the browser has heard of it, that control sends the old value along with whatever the
    visitor does next; `apply_pending` knows by these which values are such stale ones.
    """
    for name, value in values.items():
        older = {st.session_state.get(name), private.kept.get(name)}
        older |= private.stale.get(name, frozenset())
        private.stale = private.stale | {name: frozenset(older - {value})}
        st.session_state[name] = value


def moved(name: str, act: Callable[[], None]) -> None:
    """Note in a callback that a control seems to have been moved; `apply_pending` decides."""
    private.moves = private.moves | {name: act}


def apply_pending() -> None:
    """At the start of a run: do what the visitor really moved, and nothing but that."""
    state = st.session_state
    moves, kept, echoes = private.moves, private.kept, private.echoes
    del private.moves
    changed = [name for name in url_state.DEFAULTS if state.get(name) != kept.get(name)]
    if len(changed) + len(moves) > 1:
        _take_back_stale(changed)
    elif changed:  # by hand: whoever goes back to an older value means it
        private.stale = {name: old for name, old in private.stale.items() if name not in changed}
    alone = len(moves) == 1 and not changed
    for name, act in moves.items():
        if alone or name not in echoes or state.get(name) != echoes[name]:
            act()


def _take_back_stale(changed: list[str]) -> None:
    for name in changed:
        if st.session_state.get(name) in private.stale.get(name, ()):
            st.session_state[name] = private.kept[name]
