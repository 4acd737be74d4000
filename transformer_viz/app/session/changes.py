"""The edits of a visit: what they are, what they apply to, undo and redo."""

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
    """All changes of this visit."""
    return Intervention.from_json(st.session_state["edits"])


def change(edited: Intervention) -> None:
    """Put other changes in the place of the present ones; `undo` brings these back."""
    state, text = st.session_state, edited.to_json()
    if text != state["edits"]:
        private.history = private.history.did(state["edits"])
        state["edits"] = text


def clean() -> None:
    """Take all changes back: one click to the model as it was trained."""
    change(Intervention())


def history() -> History:
    """What can be undone and redone in this visit."""
    return private.history


def undo() -> None:
    """Back to the changes as they were before the last move of a control."""
    state = st.session_state
    private.history, state["edits"] = private.history.undo(state["edits"])


def redo() -> None:
    """Forward again to what was undone."""
    state = st.session_state
    private.history, state["edits"] = private.history.redo(state["edits"])


def drop_misfits(trace: Trace, kind: Kind) -> None:
    """After another model was chosen, take away the changes that mean nothing in it.

    What the last model did to a sentence cannot be undone in this one.
    """
    if not private.switched:
        return
    private.switched = False
    kept = fitting(intervention(), trace, kind)
    if kept != intervention():
        st.session_state["edits"], private.history = kept.to_json(), History()


def place() -> Place:
    """The selected head, and what a change applies to."""
    state = st.session_state
    return Place(state["block"], state["layer"], state["head"], state["scope"], private.maps)
