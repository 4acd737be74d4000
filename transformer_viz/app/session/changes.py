"""Edits of a session: the intervention, its place, undo and redo."""

from __future__ import annotations

import streamlit as st

from ...core.editing.edit_controls import Place
from ...core.interventions import Intervention
from ...core.trace import Trace
from ..engine.model_kind import Kind
from .edit_fit import fitting
from .keys import private
from .undo_history import History


def intervention() -> Intervention:
    """Return all edits of this session."""
    return Intervention.from_json(st.session_state["edits"])


def change(edited: Intervention) -> None:
    """Replace the current edits; `undo` restores them."""
    state, text = st.session_state, edited.to_json()
    if text != state["edits"]:
        private.history = private.history.did(state["edits"])
        state["edits"] = text


def clean() -> None:
    """Remove all edits."""
    change(Intervention())


def history() -> History:
    """Return the undo history of this session."""
    return private.history


def undo() -> None:
    """Restore the edits before the last move of a control."""
    state = st.session_state
    private.history, state["edits"] = private.history.undo(state["edits"])


def redo() -> None:
    """Restore the edits that were undone last."""
    state = st.session_state
    private.history, state["edits"] = private.history.redo(state["edits"])


def drop_misfits(trace: Trace, kind: Kind) -> None:
    """Remove the edits that do not fit a newly chosen model.

    The undo history is cleared, since it belongs to the previous model.
    """
    if not private.switched:
        return
    private.switched = False
    kept = fitting(intervention(), trace, kind)
    if kept != intervention():
        st.session_state["edits"], private.history = kept.to_json(), History()


def place() -> Place:
    """Return the selected head and the scope of a change."""
    state = st.session_state
    return Place(state["block"], state["layer"], state["head"], state["scope"], private.maps)
