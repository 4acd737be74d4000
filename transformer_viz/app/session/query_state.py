"""Current input of the model in a session: text, picture, sound, masks, or an uploaded file."""

from __future__ import annotations

import unicodedata

import streamlit as st

from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import File, Question
from .keys import private


def question(engine: Engine, kind: Kind) -> Question:
    """Return the current question, without inputs that the model's kind does not read."""
    state = st.session_state
    model = state["model"]
    if kind.takes == "image":
        first = next(iter(engine.shelf[model].pictures), "")
        return Question(model, picture=state["picture"] or first, file=file_of(kind))
    if kind.takes == "vectors":
        return Question(model, seed=state["seed"] or 0, file=file_of(kind))
    target = _tidy(state["target"]) if kind.translates and kind.writes else ""
    beam = state["beam"] if kind.writes else Question.beam
    if kind.takes == "audio":
        return Question(model, target=target, beam=beam, file=file_of(kind))
    return Question(
        model,
        _tidy(state["text"]),
        target,
        beam,
        _tidy(state["second"]) if kind.pairs else "",
        state["masked"] if kind.mask_id is not None else (),
        state["picture"] if kind.eyes else "",
        file=file_of(kind) if kind.eyes else None,
    )


def file_of(kind: Kind) -> File | None:
    """Return the uploaded file for models that read pictures, sounds, or vectors."""
    return private.files.get(kind.own)


def set_own_file(takes: str, file: File | None) -> None:
    """Use an uploaded file in place of examples; None returns to them."""
    private.files = private.files | {takes: file}
    mark_query_changed()


def mark_text_changed() -> None:
    """Note in a callback that the text changed, and clear masks, which are old positions."""
    st.session_state["masked"] = ()
    mark_query_changed()


def mark_query_changed() -> None:
    """Note in a callback that the sentence, or another input, has just changed."""
    private.asked = True


def _tidy(text: str | None) -> str:
    """Return the text without outer blanks and control characters."""
    return "".join(c for c in text or "" if c == "\t" or unicodedata.category(c) != "Cc").strip()
