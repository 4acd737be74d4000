"""One visitor's state: taken from the link when a visit begins, kept in the link ever after."""

from __future__ import annotations

import unicodedata
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ..interventions import Intervention
from . import link
from .edits import Place
from .engine import Engine, Question

OPENED = "_opened"
COMPLAINTS = "_complaints"
ADDRESS = "_address"
KEPT = "_kept"
NUMBERS = ("layer", "head", "token")


def defaults(engine: Engine) -> dict[str, Any]:
    """The value of every key in a link that says nothing."""
    return link.DEFAULTS | {"model": next(iter(engine.shelf))}


def begin(engine: Engine) -> None:
    """Take the state from the link at the first run and after Back or Forward; else keep it.

    Streamlit forgets the state of widgets that another page does not show; what was saved brings it
    back. What is there is left alone: a value written here would be sent to the browser, and could
    overwrite what the visitor is typing by then.
    """
    state = st.session_state
    context = get_script_run_ctx()
    if OPENED not in state or (context is not None and context.is_history_navigation):
        given = st.query_params.to_dict()
        values, complaints = link.read(given, defaults(engine))
        if not given:
            values |= engine.opening(values["model"], values["block"])
        if values["model"] not in engine.shelf:
            complaints.append(_no_model(values["model"], engine))
            values["model"] = defaults(engine)["model"]
        state.update(values)
        state[COMPLAINTS], state[OPENED] = complaints, True
        return
    kept = defaults(engine) | state.get(KEPT, {})
    for name in link.DEFAULTS:
        if name not in state:
            state[name] = kept[name]


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
    state[KEPT] = {name: state[name] for name in link.DEFAULTS if name in state}


def _address(shown: dict[str, str], engine: Engine) -> dict[str, str]:
    """What the address bar should say."""
    state = st.session_state
    values = {name: state[name] for name in link.DEFAULTS if name in state}
    return link.merged(shown, values, defaults(engine))


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


def settle(name: str, count: int, what: str) -> None:
    """Bring a number from the link into its range, and say so if that changed it."""
    state = st.session_state
    if state[name] is None or not 0 <= state[name] < count:
        if state[name] is not None:
            complaints().append(
                f"There is no {what} {state[name]} here; there are 0 to {count - 1}. "
                f"{what.capitalize()} 0 is shown."
            )
        state[name] = 0


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
    """Put other changes in the place of the present ones."""
    st.session_state["edits"] = edited.to_json()


def clean() -> None:
    """Take all changes back: one click to the model as it was trained."""
    change(Intervention())


def place() -> Place:
    """The selected head, and what a change applies to."""
    state = st.session_state
    return Place(state["block"], state["layer"], state["head"], state["scope"])


def dark() -> bool:
    """Whether the visitor's background is dark, as far as the server has been told."""
    return st.context.theme.type == "dark"
