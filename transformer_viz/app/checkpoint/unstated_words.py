"""Form for config entries that no file states, before a model is opened."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import streamlit as st

from ...i18n import say
from ..engine import model_names
from ..ui import layout
from ..ui.text_format import escape_markdown
from .config_table import read_value

HEADS = "heads"
#: Entries that differ most between models; others are folded.
USUAL = (
    *(HEADS, "norm", "activation", "embedding_scale", "positions", "kind", "pooling"),
    *("pad_id", "bos_id", "eos_id"),
)


def form(assumed: Mapping[str, Any], name: str, key: str, button: str) -> dict[str, Any] | None:
    """Draw the form. Return all overrides of the model when the button is pressed.

    An empty entry keeps its assumed value, which stays marked as a guess; the number of heads has
    no such value and is required.

    Args:
        assumed: Entries with their assumed values, or None for those without.
        name: Name of the model, with earlier overrides.
        key: Key of the form.
        button: Label of its button.

    Returns:
        None until the button is pressed, and if an entry is missing or unreadable.
    """
    said = model_names.parted(name)[1]
    asked = dict(assumed)
    if HEADS in said and HEADS not in asked:
        asked = {HEADS: None, **asked}
    with st.form(key, border=False):
        if asked:
            layout.heading(say("What does no file say?"), 3)
            layout.quiet(
                escape(
                    say(
                        "Leave empty what you do not know: its assumed value stays and is marked "
                        "as a guess."
                    )
                )
            )
        first = [word for word in asked if word in USUAL]
        rest = [word for word in asked if word not in USUAL]
        with layout.row("bottom"):
            given = {word: _control(word, asked[word], said, key) for word in first}
        if rest:
            with st.expander(say("{count} more", count=len(rest))), layout.row("bottom"):
                given |= {word: _control(word, asked[word], said, key) for word in rest}
        pressed = st.form_submit_button(button, type="primary", key=f"{key}-open")
    if not pressed:
        return None
    words = {word: value for word, value in said.items() if word not in asked}
    words |= {word: value for word, value in given.items() if value not in (None, "")}
    if HEADS in asked and HEADS not in words:
        st.error(say("The number of heads is missing. No file says it; type the one of your code."))
        return None
    return _readable(words)


def _readable(words: dict[str, Any]) -> dict[str, Any] | None:
    """Return the overrides if a name can contain them; else show an error and return None."""
    for word, value in words.items():
        try:
            model_names.read_words(model_names.written({word: value}))
        except ValueError:
            said = say("{word} takes one value: a number, true, false or a word.", word=word)
            st.error(escape_markdown(said))
            return None
    return words


def _control(word: str, value: Any, said: Mapping[str, Any], form_key: str) -> Any:
    """Draw a control for one entry; an empty one shows the assumed value as a guess."""
    from ...model.config import CHOICES

    key, now = f"{form_key}-{word}", said.get(word)
    if word == HEADS:
        return st.number_input(
            word,
            1,
            value=now if isinstance(now, int) and now > 0 else None,
            step=1,
            key=key,
            placeholder=say("required"),
            width=layout.VALUE_WIDTH,
        )
    hint = "" if value is None else say("{value} (guess)", value=_short(value))
    options = list(CHOICES.get(word, ()))
    if isinstance(value, bool):
        options = ["true", "false"]
    if options:
        chosen = str(now).lower() if isinstance(now, bool) else now
        picked = st.selectbox(
            word,
            options,
            options.index(chosen) if chosen in options else None,
            key=key,
            placeholder=hint or say("not known"),
            width=layout.VALUE_WIDTH,
        )
        return read_value(picked) if isinstance(picked, str) else None
    text = st.text_input(
        word,
        "" if now is None else _short(now),
        key=key,
        placeholder=hint or say("not known"),
        width=layout.VALUE_WIDTH,
    )
    return read_value(text) if text.strip() else None


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
