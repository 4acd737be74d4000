"""A box finds in the state what it found in the copy of it, and nothing else is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.testing.v1 import AppTest

from transformer_viz.app.serving import state_lookups


@pytest.fixture(autouse=True)
def looked_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(SafeSessionState, "filtered_state", SafeSessionState.filtered_state)
    state_lookups.look_up()
    yield


def _page() -> None:
    import streamlit as st
    from streamlit.runtime.state import get_session_state

    st.session_state.setdefault("plain", 7)
    st.session_state.setdefault("none", None)
    chosen = (
        st.selectbox("A", ("a", "b"), key="none"),
        st.selectbox("B", ("a", "b"), key="first"),
        st.radio("C", ("a", "b"), key="radio"),
        st.text_input("D", key="text"),
        st.slider("E", 0, 5, key="slider"),
        st.number_input("F", key="number", value=None),
        st.selectbox("G", ("a", "b")),
    )
    found = get_session_state().filtered_state
    known = {name: found[name] for name in found if name not in ("found", "kind")}
    st.session_state["told"], st.session_state["found"] = chosen, known
    st.session_state["kind"] = type(found).__name__
    st.session_state["missing"] = "nobody" in found


def _run() -> Any:
    app = AppTest.from_function(_page).run()
    app.selectbox(key="first").set_value("b").run()
    assert not app.exception
    return app.session_state


def test_all_boxes_give_what_they_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    now = _run()
    assert now["kind"] == "Lookups" and not now["missing"]
    monkeypatch.undo()
    was = _run()
    assert was["kind"] == "dict"
    assert now["told"] == was["told"] == (None, "b", "a", "", 0, None, "a")
    assert now["found"] == was["found"]
    assert now["found"]["plain"] == 7 and now["found"]["none"] is None


def test_what_is_not_asked_for_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(state: SafeSessionState) -> dict[str, Any]:
        raise AssertionError("The whole state was copied.")

    monkeypatch.setattr(state_lookups, "_copied", property(copied))

    def page() -> None:
        import streamlit as st

        st.selectbox("A", ("a", "b"), key="list")
        st.radio("B", ("a", "b"), key="radio")
        st.text_input("C", key="text")

    assert not AppTest.from_function(page).run().exception
