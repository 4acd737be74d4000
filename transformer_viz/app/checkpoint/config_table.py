"""Table of config entries: values, origins, and controls to override them."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from ...i18n import say
from ..engine import model_names
from ..session.keys import private
from ..session.url_values import shortened
from ..ui import layout
from ..ui.text_format import escape_markdown

if TYPE_CHECKING:
    from ...inference.inspection import Inspection, Word

WORD, VALUE = "override-word", "override-value"
MORE_WORDS = ("layout", "allow_nonfinite", "dtype")  # entries that every layout accepts
Look = Callable[[str], None]  # opens the model of a name


def table(found: Inspection, name: str, look: Look) -> None:
    """Draw all config entries with value and origin; guesses come first, each with a control.

    An entry that follows from another guess, such as d_k from heads, is set together with it.
    """
    guesses = [row for row in found.config if row.word in found.guessed]
    with st.container(border=True, key="card-config"):
        layout.heading(say("How is it built, and how do we know?"))
        with st.container(key="guesses"):  # always there: the elements below keep their position
            if guesses:
                st.html(f'<p class="tv-say">{_counted(len(guesses))}</p>')
            for row in guesses:
                _guess(row, name, look)
        said_words(name, look)
        st.html(_rows(found.config))
        known = {row.word for row in found.config}
        words = [word for word in layout_words(found.layout) if word in known]
        _say_otherwise(name, [*words, *MORE_WORDS], look)


def rescue(path: Path | None, name: str, sentence: str, look: Look) -> None:
    """Draw the overrides of a model that could not be opened, and a form for further ones.

    Args:
        path: Its path; None if there is none.
        name: Name of the model.
        sentence: The error message; an entry named in it is offered first.
        look: Opens a model.
    """
    changed = model_names.parted(name)[1]
    words = [] if path is None else [*words_of(path, changed), *MORE_WORDS]
    named = [word for word in words if re.search(rf"\b{word}\b", sentence)]
    if not (named or changed):
        return
    with st.container(border=True, key="card-rescue"):
        question = say("Do you know what the files do not say?")
        layout.heading(question)
        said_words(name, look)
        if private.unopened != sentence:
            private.unopened = sentence
            st.session_state.pop(WORD, None)
        _say_otherwise(name, list(dict.fromkeys((*named, *words))), look)


def layout_words(layout: str) -> tuple[str, ...]:
    """Return the config entries that a layout accepts; empty for an unknown layout."""
    from ...checkpoints.loader import layouts

    return {one.NAME: one.WORDS for one in layouts}.get(layout, ())


def words_of(path: Path, changed: dict[str, Any]) -> tuple[str, ...]:
    """Return the config entries of a checkpoint's layout; those of all layouts if none matches."""
    from ...checkpoints.loader import discover, layout_of, layouts

    try:
        found, _ = discover(path, {**changed, "base": False})  # does not follow an adapter's config
        return layout_of(found, changed.get("layout")).WORDS
    except (ValueError, OSError):
        return tuple(dict.fromkeys(word for layout in layouts for word in layout.WORDS))


def _counted(guesses: int) -> str:
    if guesses == 1:
        return say(
            "Nothing on disk says this word for certain. If you know better, say so: the model is "
            "then opened anew."
        )
    return say(
        "Nothing on disk says these {count} words for certain. If you know better, say so: the "
        "model is then opened anew.",
        count=guesses,
    )


def _guess(row: Word, name: str, look: Look) -> None:
    """Draw a guessed entry, the basis of the guess, and its control."""
    key = f"guess-{row.word}-{zlib.crc32(name.encode())}"
    options = _options(row)
    take = partial(_take, name, row.word, key, look)
    with layout.row("center", key=f"row-{row.word}"):
        if options:
            at = options.index(str(row.value))
            st.selectbox(
                row.word,
                options,
                at,
                key=key,
                on_change=take,
                width=layout.VALUE_WIDTH,
                label_visibility="collapsed",
            )
        else:
            st.text_input(
                row.word,
                str(row.value),
                key=key,
                on_change=take,
                width=layout.VALUE_WIDTH,
                label_visibility="collapsed",
            )
        st.html(
            f'<span class="tv-guess"><b>{escape(row.word)}</b> {_badge(row)}'
            f'<span class="tv-quiet">{escape(_reason(row))}</span></span>'
        )


def _options(row: Word) -> list[str]:
    """Return the possible values of an entry if they are few."""
    from ...model.config import CHOICES

    if isinstance(row.value, bool):
        return ["True", "False"]
    choices = CHOICES.get(row.word, ())
    return list(choices) if row.value in choices else []


def said_words(name: str, look: Look) -> None:
    """Draw the user's overrides, each with a button that removes it."""
    place, changed = model_names.parted(name)
    with layout.row("center", key="said"):
        if changed:
            layout.quiet(say("you said"), fit=True)
        for word, value in changed.items():
            rest = {other: changed[other] for other in changed if other != word}
            text = escape_markdown(f"{word} = {value} ✕")
            st.button(
                text, key=f"said-{word}", on_click=look, args=(model_names.named(place, rest),)
            )


def _say_otherwise(name: str, words: Sequence[str], look: Look) -> None:
    """Draw a form that opens the model again with one entry and its typed value."""
    if st.session_state.get(WORD) not in words:
        st.session_state.pop(WORD, None)
    with (
        st.form("override", border=False),
        layout.row("bottom"),
    ):
        st.selectbox(say("say what a word is"), words, key=WORD, width=layout.NAME_WIDTH)
        st.text_input(
            say("its value"),
            key=VALUE,
            width=layout.NAME_WIDTH,
            placeholder="8, 0.1, true, post ...",
        )
        st.form_submit_button(
            say("open with this"), key="override-open", on_click=_take_form, args=(name, look)
        )
    if private.refused:
        said = say(
            "{word} takes one value: a number, true, false or a word.",
            word=private.refused,
        )
        st.error(escape_markdown(said))
        del private.refused


def _take_form(name: str, look: Look) -> None:
    if st.session_state[VALUE].strip():
        _take(name, st.session_state[WORD], VALUE, look)


def _take(name: str, word: str, key: str, look: Look) -> None:
    """Open the model with the typed value of an entry."""
    place, changed = model_names.parted(name)
    try:
        words = model_names.read_words(
            model_names.written(changed | {word: read_value(st.session_state[key])})
        )
    except ValueError:
        private.refused = word
        return
    look(model_names.named(place, words))


def read_value(text: str) -> Any:
    """Return a typed value: numbers, true and false as such, anything else as text."""
    text = text.strip()
    try:
        return json.loads(text.lower() if text in ("True", "False", "None") else text)
    except (ValueError, RecursionError):
        return text


def _rows(rows: Sequence[Word]) -> str:
    """Return the table of all entries as HTML, in two halves that are side by side if they fit."""
    half = -(-len(rows) // 2)
    tables = "".join(_table(part) for part in (rows[:half], rows[half:]) if part)
    return f'<div class="tv-halves" data-what="config">{tables}</div>'


def _breaking(word: str) -> str:
    """Return a name that may break after any of its underscores."""
    return escape(word).replace("_", "_<wbr>")


def _table(rows: Sequence[Word]) -> str:
    lines = "".join(
        f'<tr data-word="{escape(row.word)}"><th scope="row">{_breaking(row.word)}</th>'
        f"<td>{escape(shortened(str(row.value)))}</td><td>{_origin(row)}</td></tr>"
        for row in rows
    )
    names = (say("setting"), say("its value"), say("where it came from"))
    heads = "".join(f"<th>{name}</th>" for name in names)
    return f'<table class="tv-table"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'


def _origin(row: Word) -> str:
    """Return the origin of a value as HTML; values not stated by the files are marked."""
    if row.origin == "override":
        return f'<span class="tv-badge tv-badge-you">{escape(say(row.meaning))}</span>'
    return _badge(row) + layout.quiet_span(escape(_reason(row)))


def _badge(row: Word) -> str:
    return f'<span class="tv-badge tv-badge-guess">{say("guess")}</span> ' if row.guess else ""


def _reason(row: Word) -> str:
    return say(row.meaning) or row.origin
