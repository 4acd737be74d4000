"""What we ask of Streamlit beyond its documented interface is there, and means what we think."""

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

from transformer_viz.app.ui import streamlit_private

NAMES = ("is_history_navigation", "page_script_hash", "fragment_ids_this_run", "script_requests")


@pytest.mark.parametrize("name", NAMES)
def test_a_run_still_knows(name: str) -> None:
    fields = {field.name for field in dataclasses.fields(ScriptRunContext)}
    assert name in fields or isinstance(getattr(ScriptRunContext, name, None), property)


def test_a_wish_of_the_visitor_is_seen() -> None:
    requests = ScriptRequests()
    assert requests._state is ScriptRequestType.CONTINUE
    requests.request_rerun(RerunData())
    assert requests._state is ScriptRequestType.RERUN


def test_outside_a_run_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamlit_private, "get_script_run_ctx", lambda **words: None)
    assert streamlit_private.page_hash() is None
    assert not streamlit_private.came_by_history()
    assert not streamlit_private.is_in_fragment()
    assert not streamlit_private.told_keys()
    assert not streamlit_private.is_rerun_wanted()


def test_in_a_run_all_is_told() -> None:
    def page() -> None:
        import streamlit as st

        from transformer_viz.app.ui import streamlit_private as private

        @st.fragment
        def part() -> None:
            asked = (private.came_by_history(), private.is_rerun_wanted())
            st.session_state["told"] = (*asked, private.is_in_fragment(), private.page_hash())
            st.button("again")

        part()

    app = AppTest.from_function(page).run()
    assert not app.exception
    back, wanted, fragment, page_hash = app.session_state["told"]
    assert (back, wanted, fragment) == (False, False, False) and page_hash


def test_what_a_browser_has_not_shown_is_not_told() -> None:
    def page() -> None:
        import streamlit as st

        from transformer_viz.app.ui import streamlit_private as private

        st.session_state["told"] = private.told_keys()
        st.text_input("A box", key="box")
        if not st.session_state.get("only_one"):
            st.selectbox("A list", ("a", "b"), key="list")

    app = AppTest.from_function(page).run()
    assert app.session_state["told"] == set()
    app.session_state["only_one"] = True
    assert app.run().session_state["told"] == {"box", "list"}
    assert app.run().session_state["told"] == {"box"}


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
    assert manager._total_bytes == 3 and streamlit_private.uploaded_bytes() >= 0
    assert "_uploaded_file_mgr" in inspect.getsource(Runtime.__init__)


def test_a_visit_that_a_browser_comes_back_to_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = ForwardMsgQueue()
    queue.enqueue(ForwardMsg(script_finished=ForwardMsg.FINISHED_SUCCESSFULLY))
    state = SessionState()
    state._key_id_mapper["head"] = "$$ID-new-head"
    session = SimpleNamespace(
        session_state=state,
        flush_browser_queue=queue.flush,
        page_script_hash="12ab",
        _scriptrunner=1,
    )
    sessions = {"here": SimpleNamespace(session=session)}
    server = SimpleNamespace(_session_mgr=SimpleNamespace(get_session_info=sessions.get))
    monkeypatch.setattr(Runtime, "_instance", server)
    assert [streamlit_private.is_running(name) for name in ("here", "gone")] == [True, False]
    controls = ("$$ID-new-head", "$$ID-old-head", "$$ID-1-text", "$$ID-2-None")
    replaced = [one for one in controls if streamlit_private.is_replaced("here", one)]
    assert replaced == ["$$ID-old-head"]
    assert not streamlit_private.is_replaced("gone", "$$ID-old-head")
    session._scriptrunner = None
    assert not streamlit_private.is_running("here")
    assert "_scriptrunner" in inspect.getsource(AppSession.__init__)
    assert streamlit_private.discard_unsent("gone") == "" and not queue.is_empty()
    assert streamlit_private.discard_unsent("here") == "12ab" and queue.is_empty()
    assert "_session_mgr" in inspect.getsource(Runtime.__init__)
    assert {"get_session_info"} <= vars(SessionManager).keys()
    assert {"flush_browser_queue", "page_script_hash"} <= vars(AppSession).keys()
