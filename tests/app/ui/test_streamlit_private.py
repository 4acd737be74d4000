"""What the app uses of Streamlit beyond its documented interface exists and means the same."""

from __future__ import annotations

import dataclasses
import inspect
from types import SimpleNamespace

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.forward_msg_cache import populate_hash_if_needed
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import RerunData, ScriptRunContext
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests, ScriptRequestType
from streamlit.runtime.session_manager import SessionManager
from streamlit.runtime.state import SessionState
from streamlit.runtime.uploaded_file_manager import UploadedFileRec
from streamlit.testing.v1 import AppTest

from transformer_viz.app.ui import streamlit_private as private


def test_names_of_streamlit_are_there() -> None:
    fields = {field.name for field in dataclasses.fields(ScriptRunContext)}
    for name in (
        "is_history_navigation", "page_script_hash", "fragment_ids_this_run", "script_requests",
    ):  # fmt: skip
        found = getattr(ScriptRunContext, name, None)
        assert name in fields or isinstance(found, property), name
    for owner, names in (
        (SessionManager, {"get_session_info"}),
        (AppSession, {"flush_browser_queue", "page_script_hash"}),
    ):
        assert names <= vars(owner).keys(), owner
    assert "_scriptrunner" in inspect.getsource(AppSession.__init__)
    for name in ("_session_mgr", "_uploaded_file_mgr"):
        assert name in inspect.getsource(Runtime.__init__), name
    requests = ScriptRequests()
    assert requests._state is ScriptRequestType.CONTINUE
    requests.request_rerun(RerunData())
    assert requests._state is ScriptRequestType.RERUN


def test_outside_a_run_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "get_script_run_ctx", lambda **words: None)
    assert private.page_hash() is None
    for ask in (private.came_by_history, private.is_in_fragment, private.told_keys):
        assert not ask(), ask
    assert not private.is_rerun_wanted()


def test_in_a_run_all_is_known() -> None:
    def page() -> None:
        import streamlit as st

        from transformer_viz.app.ui import streamlit_private as private

        st.session_state["told"] = private.told_keys()
        st.text_input("A box", key="box")
        if not st.session_state.get("only_one"):
            st.selectbox("A list", ("a", "b"), key="list")

        @st.fragment
        def part() -> None:
            asked = (private.came_by_history(), private.is_rerun_wanted())
            st.session_state["asked"] = (*asked, private.is_in_fragment(), private.page_hash())
            st.button("again")

        part()

    app = AppTest.from_function(page).run()
    *asked, page_hash = app.session_state["asked"]
    assert not app.exception and asked == [False, False, False] and page_hash
    # Keys are told once a browser has shown their widgets.
    shown = {"box", "list"}
    assert not app.session_state["told"] & shown
    app.session_state["only_one"] = True
    assert app.run().session_state["told"] & shown == shown
    assert app.run().session_state["told"] & shown == {"box"}


def test_no_message_refers_to_one_that_the_browser_may_have_forgotten() -> None:
    """Of two quick changes of the page the first makes a browser forget what the second refers to:
    "Cached ForwardMsg MISS". `.streamlit/config.toml` has every message sent whole."""
    message = ForwardMsg()
    message.delta.new_element.html.body = "a" * 10_000_000
    populate_hash_if_needed(message)
    assert message.hash and not message.metadata.cacheable


def test_bytes_of_uploads_are_known() -> None:
    manager = MemoryUploadedFileManager("/upload")
    manager.add_file("visit", UploadedFileRec("1", "a", "", b"abc"))
    assert manager._total_bytes == 3 and private.uploaded_bytes() >= 0


def test_a_visit_that_a_browser_comes_back_to_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ForwardMsgQueue()
    queue.enqueue(ForwardMsg(script_finished=ForwardMsg.FINISHED_SUCCESSFULLY))
    state = SessionState()
    state._key_id_mapper["head"] = "$$ID-new-head"
    session = SimpleNamespace(session_state=state, page_script_hash="12ab", _scriptrunner=1)
    session.flush_browser_queue = queue.flush
    sessions = {"here": SimpleNamespace(session=session)}
    server = SimpleNamespace(_session_mgr=SimpleNamespace(get_session_info=sessions.get))
    monkeypatch.setattr(Runtime, "_instance", server)
    assert [private.is_running(name) for name in ("here", "gone")] == [True, False]
    controls = ("$$ID-new-head", "$$ID-old-head", "$$ID-1-text", "$$ID-2-None")
    replaced = [one for one in controls if private.is_replaced("here", one)]
    assert replaced == ["$$ID-old-head"] and not private.is_replaced("gone", "$$ID-old-head")
    session._scriptrunner = None
    assert not private.is_running("here")
    assert private.discard_unsent("gone") == "" and not queue.is_empty()
    assert private.discard_unsent("here") == "12ab" and queue.is_empty()
