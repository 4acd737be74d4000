"""What is asked of the model in this visit: its words, picture, sound, masks, or own file."""

from __future__ import annotations

import unicodedata

import streamlit as st

from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import File, Question
from .keys import private


def question(engine: Engine, kind: Kind) -> Question:
    """What is asked of the model as things stand; what its kind does not take is left out."""
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
    """The visitor's own file for models that take pictures, sounds, or vectors."""
    return private.files.get(kind.own)


def set_own_file(takes: str, file: File | None) -> None:
    """Put a visitor's own file in the place of examples; None goes back to them."""
    private.files = private.files | {takes: file}
    mark_query_changed()


def mark_text_changed() -> None:
    """Note in a callback that another text was typed: masks were numbers of the old one's words."""
    st.session_state["masked"] = ()
    mark_query_changed()


def mark_query_changed() -> None:
    """Note in a callback that the sentence, or what stands beside it, was changed just now."""
    private.asked = True


def _tidy(text: str | None) -> str:
    """Text without outer blanks and without control characters, which no one can have meant."""
    return "".join(c for c in text or "" if c == "\t" or unicodedata.category(c) != "Cc").strip()
