"""Progress of long work, which the user can stop at any moment.

The work runs in a separate thread. The page's thread waits for it and checks for further actions of
the user. After one, the work is stopped, and the newest request is served.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...i18n import say, speaking, spoken_language
from ..counts.server_counts import computing
from ..engine.task import POLL, Task
from . import layout
from .streamlit_private import is_in_fragment, is_rerun_wanted, session_id
from .text_format import escape_markdown, spoken

T = TypeVar("T")
SILENT = 0.3  # seconds before progress is shown: most work ends earlier
MARKS, COUNT = "_stopped", "_patience"  # keys of its session state


class Stopped(ValueError):
    """The user stopped this work; a button in its place offers to go on."""


def run_with_progress(
    work: Callable[[Task], T],
    *,
    key: str,
    label: str,
    about: object = None,
    where: DeltaGenerator | None = None,
) -> T:
    """Return the result of the work; after a while show its progress, with a button to stop.

    Args:
        work: Runs in a separate thread, so it must not use Streamlit; it reports its progress with
            ``task.step`` and ends there when it is abandoned.
        key: Name of the work; it may be used more than once on a page.
        label: Text beside the bar, such as ``Translating ...``.
        about: Input of the work, compared by ``==``: a stop holds as long as it is unchanged.
        where: Container that shows it; by default the current position. Work that is not needed
            each time should use one that is always there. Elements that come and go move those
            below, and the browser builds these anew (a slider loses its focus).

    Raises:
        Stopped: The user stopped it and has not chosen to go on; the page shows that already.
        Exception: Any error of the work.
    """
    place = (where or st).empty()
    if _is_stopped(key, about):
        _offer_to_go_on(place, key)
        raise Stopped("Stopped before it was done.")
    task = Task(session_id())
    run = _begin(work, task, spoken_language())
    try:
        if not wait([run], SILENT).done:
            _watch(place, run, task, label, (key, about))
        return run.result()
    finally:
        task.abandon()  # no effect if it is done; else the user has moved on


@contextmanager
def explained() -> Iterator[None]:
    """Show the content of the block, or the message of an error.

    A stop by the user shows its own message, with a button to go on.
    """
    try:
        yield
    except Stopped:
        pass
    except (ValueError, LookupError) as error:
        st.info(escape_markdown(spoken(error)))


def _begin(work: Callable[[Task], T], task: Task, language: str) -> Future[T]:
    """Start the work in a thread, with the user's language."""
    run: Future[T] = Future()

    def finish() -> None:
        try:
            with speaking(language), computing("runs"):
                run.set_result(work(task))
        except BaseException as error:
            run.set_exception(error)

    threading.Thread(target=finish, name="patience", daemon=True).start()
    return run


def _watch(
    place: DeltaGenerator, run: Future[T], task: Task, label: str, mark: tuple[str, object]
) -> None:
    """Show the progress until the work ends, or the user does something else."""
    shown = task.done, _words(task, label)
    with layout.row("center", place=place):
        bar = st.progress(*shown)
        _stop_button(mark)
    while not wait([run], POLL).done:
        _make_way()
        if shown != (shown := (task.done, _words(task, label))):
            bar.progress(*shown)
    place.empty()


def _stop_button(mark: tuple[str, object]) -> None:
    st.button(say("stop"), key=_widget("stop", mark[0]), on_click=_stop, args=mark)


def _make_way() -> None:
    """End this run of the page if the user has done something since."""
    if is_rerun_wanted():
        rerun()


def rerun() -> None:
    """Run the current fragment again, or the page if there is none."""
    st.rerun(scope="fragment" if is_in_fragment() else "app")


def _words(task: Task, label: str) -> str:
    return escape_markdown(task.words or label)


def _offer_to_go_on(place: DeltaGenerator, key: str) -> None:
    with layout.row("center", place=place):
        layout.quiet(say("Stopped."), fit=True)
        st.button(say("go on"), key=_widget("go-on", key), on_click=_go_on, args=(key,))


def _widget(what: str, key: str) -> str:
    """Return a unique key of a button: the same work may be shown twice in one run of a page."""
    count = st.session_state.get(COUNT, 0)
    st.session_state[COUNT] = count + 1
    return f"{what}-{key}-{count}"


def _marks() -> dict[str, object]:
    marks: dict[str, object] = st.session_state.setdefault(MARKS, {})
    return marks


def _is_stopped(key: str, about: object) -> bool:
    """Return True if the user stopped this work; a stop of other work of that name is lifted."""
    marks = _marks()
    if key in marks and marks[key] != about:
        del marks[key]
    return key in marks


def _stop(key: str, about: object) -> None:
    _marks()[key] = about


def _go_on(key: str) -> None:
    _marks().pop(key, None)
