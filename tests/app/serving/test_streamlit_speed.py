"""Faster parts of Streamlit: messages in batches, and lookups instead of copies of the state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.script_data import ScriptData
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.testing.v1 import AppTest

from tests.support.waiting import until
from transformer_viz.app.serving import message_batches, state_lookups

Loop = asyncio.AbstractEventLoop


class Session:
    """As much of a session as wakes its loop."""

    def __init__(self, loop: Loop) -> None:
        self._event_loop = loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop that runs in a thread of its own."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def test_messages_come_in_order_and_wake_the_loop_seldom(loop, monkeypatch) -> None:
    woken, said = [], 90  # messages of a page run
    own = message_batches._wake_for
    monkeypatch.setattr(message_batches, "_wake_for", lambda *words: woken.append(1) or own(*words))
    session: Any = Session(loop)
    heard: list[int] = []

    def tell(number: int) -> None:
        message_batches._soon(session, lambda: heard.append(number))

    for number in range(said):
        tell(number)
    until(lambda: len(heard) == said)
    assert heard == list(range(said)) and len(woken) < said / 3
    before = len(woken)  # later ones wake it again
    for number in (said, said + 1):
        tell(number)
        until(lambda number=number: heard[-1] == number)
    assert len(woken) == before + 2


def test_a_message_that_fails_is_reported_and_the_others_come(loop: Loop) -> None:
    session: Any = Session(loop)
    told: list[Any] = []
    heard: list[str] = []
    loop.set_exception_handler(lambda _, words: told.append(words["exception"]))
    message_batches._soon(session, lambda: 1 / 0 and None)
    message_batches._soon(session, lambda: heard.append("after"))
    until(lambda: heard == ["after"])
    assert [type(error) for error in told] == [ZeroDivisionError]
    closed = asyncio.new_event_loop()
    closed.close()
    message_batches._soon(Session(closed), lambda: None)  # is dropped


FRAGMENTS = """
import streamlit as st

@st.fragment
def first():
    st.text("first fragment")

@st.fragment
def second():
    st.text("second fragment")

first()
second()
"""


def test_a_run_that_ends_as_another_is_asked_for_sends_its_last_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment asks after the end of a run, before its messages were delivered."""
    for owner, name in (
        (AppSession, "_call_soon_on_event_loop"),
        (AppSession, "_create_scriptrunner"),
        (Runtime, "_enqueued_some_message"),
    ):
        monkeypatch.setattr(owner, name, vars(owner)[name])  # put back at the end
    message_batches.gather()
    page = tmp_path / "page.py"
    page.write_text(FRAGMENTS, encoding="utf-8")
    monkeypatch.setattr(Runtime, "_instance", MagicMock())

    async def texts() -> list[str]:
        session: Any = AppSession(
            ScriptData(str(page), is_hello=False), MemoryUploadedFileManager("/upload"),
            ScriptCache(), None, {},
        )  # fmt: skip
        session.request_rerun(None)
        while session._scriptrunner is not None:
            await asyncio.sleep(0.01)
        deltas = [one.delta for one in session.flush_browser_queue() if one.HasField("delta")]
        fragments = list(dict.fromkeys(d.fragment_id for d in deltas if d.fragment_id))
        assert len(fragments) == 2
        session.request_rerun(ClientState(fragment_id=fragments[0]))
        session._scriptrunner._script_thread.join()  # the loop is busy meanwhile
        session.request_rerun(ClientState(fragment_id=fragments[1]))
        while session._scriptrunner is not None:
            await asyncio.sleep(0.01)
        sent = [one.delta for one in session.flush_browser_queue() if one.HasField("delta")]
        return [text for delta in sent if (text := delta.new_element.text.body)]

    with ThreadPoolExecutor(1) as other:  # Playwright's loop may run in this thread
        sent = other.submit(lambda: asyncio.run(texts())).result()
    assert sent == ["first fragment", "second fragment"]


def test_on_the_loop_the_event_is_set_at_once(loop: Loop) -> None:
    set_on: list[int] = []
    event = SimpleNamespace(set=lambda: set_on.append(threading.get_ident()))
    needed = SimpleNamespace(eventloop=loop, need_send_data=event)
    runtime: Any = SimpleNamespace(_get_async_objs=lambda: needed)
    message_batches._enqueued(runtime)  # of this thread, which is not the loop's
    until(lambda: len(set_on) == 1)
    loop.call_soon_threadsafe(lambda: message_batches._enqueued(runtime))
    until(lambda: len(set_on) == 2)
    assert threading.get_ident() not in set_on
    assert callable(AppSession._call_soon_on_event_loop)  # Streamlit still has what is changed
    assert callable(Runtime._enqueued_some_message) and callable(Runtime._get_async_objs)


def test_widgets_find_in_the_state_what_they_found_in_its_copy(monkeypatch) -> None:
    def page() -> None:
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

    def ran() -> Any:
        app = AppTest.from_function(page).run()
        app.selectbox(key="first").set_value("b").run()
        assert not app.exception
        return app.session_state

    was = ran()
    monkeypatch.setattr(SafeSessionState, "filtered_state", SafeSessionState.filtered_state)
    state_lookups.look_up()
    now = ran()
    assert was["kind"] == "dict" and now["kind"] == "Lookups" and not now["missing"]
    assert now["told"] == was["told"] == (None, "b", "a", "", 0, None, "a")
    assert now["found"] == was["found"]
    assert now["found"]["plain"] == 7 and now["found"]["none"] is None

    def copied(state: SafeSessionState) -> dict[str, Any]:
        raise AssertionError("The whole state was copied.")

    def small() -> None:
        import streamlit as st

        st.selectbox("A", ("a", "b"), key="list")
        st.radio("B", ("a", "b"), key="radio")
        st.text_input("C", key="text")

    monkeypatch.setattr(state_lookups, "_copied", property(copied))
    assert not AppTest.from_function(small).run().exception
