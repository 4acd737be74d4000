"""One visitor's state: taken from the link when a visit begins, kept in the link ever after."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ..interventions import Intervention
from . import link
from .edits import Place
from .engine import Engine, Question
from .history import History

OPENED = "_opened"
COMPLAINTS = "_complaints"
ADDRESS = "_address"
KEPT = "_kept"
PAGE = "_page"
COUNTS = "_counts"
HELD = "_held"
ASKED = "_asked"
OPENING = {"layer": "0", "head": "0"}
FRAME = ("text", "model", "target", "beam")
FRESH = "_fresh"  # the link has just been read, and nothing was chosen since
HISTORY = "_history"
RECOLOUR = "_recolour"
NUMBERS = ("layer", "head", "token", "answer", "place", "shift", "pair", "word", "order")


def defaults(engine: Engine) -> dict[str, Any]:
    """The value of every key in a link that says nothing."""
    return link.DEFAULTS | {"model": next(iter(engine.shelf))}


def begin(engine: Engine) -> None:
    """Take the state from the link at the first run and after Back or Forward; else keep it.

    On another page each widget is a new one, even with the same key, and begins at its default:
    there what was saved is written back. On the same page what is there is left alone: a value
    written here would be sent to the browser, and could overwrite what the visitor is typing.
    """
    state = st.session_state
    context = get_script_run_ctx()
    if OPENED not in state or (context is not None and context.is_history_navigation):
        given = st.query_params.to_dict()
        values, complaints = link.read(given, defaults(engine))
        if link.others(given) == given:  # nothing of ours in it
            values |= engine.opening(values["model"], values["block"])
        if values["model"] not in engine.shelf:
            complaints.append(_no_model(values["model"], engine))
            values["model"] = defaults(engine)["model"]
        state.update(values)
        state[COMPLAINTS], state[OPENED], state[FRESH] = complaints, True, True
        state[PAGE] = None if context is None else context.page_script_hash
        return
    page = None if context is None else context.page_script_hash
    moved = state.get(PAGE, page) != page
    state[PAGE] = page
    if moved:
        newer = {"edits", *(FRAME if state.pop(ASKED, False) else ())}
        kept = defaults(engine) | state.get(KEPT, {})
        state.update(kept | {name: state[name] for name in newer if name in state})
    restore(engine)


def asked() -> None:
    """Note in a callback that the sentence, or what stands beside it, was changed just now."""
    st.session_state[ASKED] = True


def restore(engine: Engine) -> None:
    """Bring back what had no widget in the last run: one that comes now begins at its default."""
    state = st.session_state
    kept = defaults(engine) | state.get(KEPT, {})
    for name in link.DEFAULTS:
        if name not in state:
            state[name] = kept[name]
    for name in state.pop(HELD, ()):
        relabel(name)


def hold() -> None:
    """At the end of a run, write what has no widget on this page once more.

    Streamlit drops the state of widgets that a run did not draw, and would then find what was
    written under the same key long ago.
    """
    held = []
    for name in link.DEFAULTS:
        if name not in FRAME:  # a fragment does not draw the frame, which stands all the same
            with suppress(StreamlitAPIException):  # it has a widget here: nothing to do
                relabel(name)
                held.append(name)
    st.session_state[HELD] = held


def _no_model(name: str, engine: Engine) -> str:
    return (
        f"In the link, model is {link.shortened(name)!r}, which is not here; "
        f"there is {', '.join(engine.shelf)}. It was left out."
    )


def save(engine: Engine) -> None:
    """Write the state into the address bar, if it says something else."""
    shown = st.query_params.to_dict()
    wanted = _address(shown, engine)
    if wanted != shown:
        st.query_params.from_dict(wanted)
    state = st.session_state
    state[ADDRESS] = wanted
    state[KEPT] = {name: state[name] for name in link.DEFAULTS}


def _address(shown: dict[str, str], engine: Engine) -> dict[str, str]:
    """What the address bar should say."""
    state = st.session_state
    values = {name: state[name] for name in link.DEFAULTS}
    ours = link.write(values, defaults(engine))
    if not ours and engine.opening(state["model"], state["block"]):
        ours = OPENING  # an empty link would open another head
    return link.others(shown) | ours


def answered() -> None:
    """Note that a page stands: what is not there from now on was not asked for by the link."""
    st.session_state[FRESH] = False


def heed(engine: Engine) -> None:
    """Complaints stay until the visitor has changed something."""
    for name in NUMBERS:  # an option that a new sentence took away comes back as its label
        if isinstance(st.session_state.get(name), str):
            st.session_state[name] = None
    now = _address(st.query_params.to_dict(), engine)
    if st.session_state.get(ADDRESS, now) != now:
        complaints().clear()


def complaints() -> list[str]:
    """Sentences about what the link asked for and could not have."""
    found: list[str] = st.session_state.get(COMPLAINTS, [])
    return found


def fit(name: str, count: int, what: str) -> int:
    """Bring a number into the range that there is here.

    A number of the link that is not there is said. What another sentence, block or page has left
    behind is not: nobody asked for it here.
    """
    state = st.session_state
    value = state[name]
    if value is None or not 0 <= value < count:
        asked = state.get(FRESH) and value is not None
        if asked:
            complaints().append(
                f"There is no {what} {value} here; there are 0 to {count - 1}. "
                f"{what.capitalize()} 0 is shown."
            )
        state[name] = 0 if asked or value is None else max(0, count - 1)
    counts: dict[str, int] = state.setdefault(COUNTS, {})
    if counts.get(name) != count:  # a slider of another length is a new one, at its beginning
        counts[name] = count
        relabel(name)
    return int(state[name])


def relabel(name: str) -> None:
    """Write a choice again whose options may bear other words now.

    The browser keeps the words that it showed until the value is written.
    """
    st.session_state[name] = st.session_state[name]


def question() -> Question:
    """The sentence, model, typed target and beam as they stand."""
    state = st.session_state
    return Question(state["model"], _tidy(state["text"]), _tidy(state["target"]), state["beam"])


def _tidy(text: str | None) -> str:
    """Text without outer blanks and without control characters, which no one can have meant."""
    return "".join(c for c in text or "" if c == "\t" or unicodedata.category(c) != "Cc").strip()


def intervention() -> Intervention:
    """All changes of this visit."""
    return Intervention.from_json(st.session_state["edits"])


def change(edited: Intervention) -> None:
    """Put other changes in the place of the present ones; `undo` brings these back."""
    state, text = st.session_state, edited.to_json()
    if text != state["edits"]:
        state[HISTORY] = history().did(state["edits"])
        state["edits"] = text


def clean() -> None:
    """Take all changes back: one click to the model as it was trained."""
    change(Intervention())


def history() -> History:
    """What can be undone and redone in this visit."""
    return st.session_state.get(HISTORY, History())


def undo() -> None:
    """Back to the changes as they were before the last move of a control."""
    state = st.session_state
    state[HISTORY], state["edits"] = history().undo(state["edits"])


def redo() -> None:
    """Forward again to what was undone."""
    state = st.session_state
    state[HISTORY], state["edits"] = history().redo(state["edits"])


def place() -> Place:
    """The selected head, and what a change applies to."""
    state = st.session_state
    return Place(state["block"], state["layer"], state["head"], state["scope"])


def recolour(dark: bool) -> None:
    """Note that the visitor switched between light and dark: the next run draws all anew."""
    st.session_state[RECOLOUR] = dark


def dark() -> bool:
    """Whether the visitor's background is dark, as far as the server has been told."""
    return st.context.theme.type == "dark"
