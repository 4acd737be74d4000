"""Uses of Streamlit beyond its public interface, each covered by a test.

An upgrade may rename any of it. Then `tests/app/ui/test_streamlit_private.py` fails; otherwise a
stop button or the browser's Back would silently do nothing.
"""

from __future__ import annotations

from typing import Any

from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType


def came_by_history() -> bool:
    """Return True if the browser's Back or Forward led to this run."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation


def page_hash() -> str | None:
    """Return the hash of this run's page; None outside a run."""
    context = get_script_run_ctx(suppress_warning=True)
    return None if context is None else context.page_script_hash


def session_id() -> str | None:
    """Return the session of this run; None outside a run."""
    context = get_script_run_ctx(suppress_warning=True)
    return None if context is None else context.session_id


def discard_unsent(session: str) -> str:
    """Discard a session's unsent messages to its browser; return the hash of its page.

    The hash is empty if the session is unknown or has no page yet.
    """
    known = _session(session)
    if known is None:
        return ""
    known.flush_browser_queue()
    return str(known.page_script_hash)


def is_running(session: str) -> bool:
    """Return True if a thread of a session still runs its script."""
    known = _session(session)
    return known is not None and known._scriptrunner is not None


def is_replaced(session: str, control: str) -> bool:
    """Return True if a session has drawn a newer control under the key of this one."""
    known = _session(session)
    if known is None:
        return False
    newest = known.session_state._key_id_mapper.get_id_from_key(key_of(control), control)
    return bool(newest != control)


def _session(name: str) -> Any:
    known = Runtime.instance()._session_mgr.get_session_info(name) if Runtime.exists() else None
    return None if known is None else known.session


def uploaded_bytes() -> int:
    """Return the bytes of the uploads that Streamlit keeps; 0 if no server runs."""
    if not Runtime.exists():
        return 0
    return int(getattr(Runtime.instance()._uploaded_file_mgr, "_total_bytes", 0))


def told_keys() -> frozenset[str]:
    """Return the keys of the controls whose values came with the request for this run.

    A browser sends those of all controls that it has, without those whose code is still on its way.
    A run caused by `streamlit.rerun` also receives those that were only drawn.
    """
    context = get_script_run_ctx(suppress_warning=True)
    states = () if context is None else context.session_state.get_widget_states()
    return frozenset(key_of(state.id) for state in states)


def key_of(control: str) -> str:
    """Return the key in the id that Streamlit gives a control: `$$ID-<hash>-<key>`."""
    return control.split("-", maxsplit=2)[-1]


def is_in_fragment() -> bool:
    """Return True if this run draws only a fragment, not the whole page."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and bool(context.fragment_ids_this_run)


def is_rerun_wanted() -> bool:
    """Return True if the user has done something since this run began.

    Most requests end the run at the next call of Streamlit. A request from within a fragment, such
    as a page, would wait for its end; Streamlit stores it in a private field only.
    """
    context = get_script_run_ctx(suppress_warning=True)
    requests = None if context is None else context.script_requests
    return getattr(requests, "_state", None) is ScriptRequestType.RERUN
