"""The typed names of what a session keeps: complete, and the only way to a key of the link."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.paths import ROOT
from transformer_viz.app.session.keys import Private, Slot
from transformer_viz.app.session.state import Choice, State
from transformer_viz.app.session.url_state import KEYS

APP = ROOT / "transformer_viz" / "app"
#: What is asked before the state was taken from the link.
EARLY = ['lessons/navigation.py: session_state.get("station"']
OUTSIDE = [path for path in sorted(APP.rglob("*.py")) if path.parent != APP / "session"]


def test_each_key_of_the_link_has_a_typed_name() -> None:
    named = [name for name, one in vars(State).items() if isinstance(one, Choice)]
    assert named == [key.name for key in KEYS]


def test_private_keys_are_none_of_the_link() -> None:
    slots = {name: one.key for name, one in vars(Private).items() if isinstance(one, Slot)}
    assert slots == {name: f"_{name}" for name in slots}
    assert len(slots) > 10 and not {*slots.values()} & {key.name for key in KEYS}


def test_outside_the_session_a_key_of_the_link_is_read_by_its_typed_name() -> None:
    keys = "|".join(key.name for key in KEYS)
    private = "|".join(name for name, one in vars(Private).items() if isinstance(one, Slot))
    spelled = re.compile(rf'session_state(\[|\.(get|pop)\()"({keys}|_({private}))"')
    found = [
        f"{path.relative_to(APP)}: {match[0]}"
        for path in OUTSIDE
        for match in spelled.finditer(path.read_text("utf-8"))
    ]
    assert found == EARLY, "write state.token instead (transformer_viz/app/session/state.py)"


def test_no_two_rooms_keep_something_under_the_same_key() -> None:
    spelled = re.compile(r'^[A-Z_, ]+ = .*"_[a-z]', re.MULTILINE)
    found = [
        f"{path.relative_to(APP)}: {match[0]}"
        for path in OUTSIDE
        for match in spelled.finditer(path.read_text("utf-8"))
    ]
    below = ("ui/progress.py", "ui/components.py")  # they cannot import the session's keys
    alone = [one for one in found if not one.startswith(below)]
    assert alone == [], "give it a Slot in transformer_viz/app/session/keys.py"


@pytest.mark.app
def test_typed_names_read_and_write_the_session(visit: Callable[..., AppTest]) -> None:
    app = visit(layer="1", token="1", special="off")
    assert (app.session_state["layer"], app.session_state["special"]) == (1, False)

    def script() -> None:
        import streamlit as st

        from transformer_viz.app.session.keys import private
        from transformer_viz.app.session.state import state

        state.token = 3
        private.counts = {"token": 4}
        st.text(f"{st.session_state['token']} {state.token} {private.counts} {private.fresh}")
        del private.counts
        del private.counts  # what is at its default stays there
        st.text(f"{private.counts}")

    assert [one.value for one in AppTest.from_function(script).run().text] == [
        "3 3 {'token': 4} False",
        "{}",
    ]
