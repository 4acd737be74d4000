"""Moves of controls, distinguished from stale values that a browser still sends.

Controls show the selected head, so Python writes them. Until the browser has received a value, it
sends the old one along with the next move, and Streamlit takes it for a move too. A message is
caused by one move. If it has several, those that repeat an overwritten value are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from . import url_state
from .keys import private


def show(wanted: Mapping[str, Any]) -> None:
    """Set the values of controls.

    A value is written only if it differs, or if the browser has no such control yet. Writing an
    unchanged one back would move a slider away from the pointer.
    """
    state = st.session_state
    for name, value in wanted.items():
        if state.get(name) != value:
            private.echoes = private.echoes | {name: state.get(name)}
            state[name] = value
        elif name not in private.seen:  # a new control, which would start at its own default
            state[name] = value


def choose(**values: Any) -> None:
    """Write choices of the link that have a control too.

    Until the browser has received it, that control sends the old value with the next move.
    `apply_pending` recognizes such stale values.
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
    """Apply the user's actual moves at the start of a run, and ignore stale values."""
    state = st.session_state
    moves, kept, echoes = private.moves, private.kept, private.echoes
    del private.moves
    changed = [name for name in url_state.DEFAULTS if state.get(name) != kept.get(name)]
    if len(changed) + len(moves) > 1:
        _take_back_stale(changed)
    elif changed:  # by the user: a return to an older value is intended
        private.stale = {name: old for name, old in private.stale.items() if name not in changed}
    alone = len(moves) == 1 and not changed
    for name, act in moves.items():
        if alone or name not in echoes or state.get(name) != echoes[name]:
            act()


def _take_back_stale(changed: list[str]) -> None:
    for name in changed:
        if st.session_state.get(name) in private.stale.get(name, ()):
            st.session_state[name] = private.kept[name]
