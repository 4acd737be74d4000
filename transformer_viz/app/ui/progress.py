"""Waiting that shows how far the work is, and that a visitor can end at any moment.

The work runs in a thread of its own. The page's thread waits for it and keeps looking whether its
visitor has done anything else: then the work is told to stop, and the newest wish is served.
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
SILENT = 0.3  # seconds in which nothing is shown: most work ends before them
MARKS, COUNT = "_stopped", "_patience"  # what is kept of it in the visitor's state


class Stopped(ValueError):
    """The visitor stopped this work; where it was to appear, a button offers to go on."""


def run_with_progress(
    work: Callable[[Task], T],
    *,
    key: str,
    label: str,
    about: object = None,
    where: DeltaGenerator | None = None,
) -> T:
    """What the work gives. If it takes a while, a bar shows how far it is, with a button to stop.

    Args:
        work: runs in a thread of its own, so it must not touch Streamlit; it says how far it is
            with ``task.step`` and ends there when it is abandoned.
        key: names the work among others; it may be used more than once on a page.
        label: the words beside the bar, such as ``Translating ...``.
        about: what the work answers, compared by ``==``: a stop holds as long as this stays.
        where: the container in which it is shown; left out, here. Work that is not needed each
            time should be shown in one that is always there: elements that come and go move what
            follows them, and the browser builds that anew (a slider loses its focus).

    Raises:
        Stopped: the visitor stopped it and has not chosen to go on; the page says so already.
        Exception: whatever the work raises.
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
        task.abandon()  # does nothing if it is done; else the visitor has moved on


@contextmanager
def explained() -> Iterator[None]:
    """What comes inside is shown; where it cannot be had, a sentence says why.

    A stop by the visitor says so itself, and offers to go on.
    """
    try:
        yield
    except Stopped:
        pass
    except (ValueError, LookupError) as error:
        st.info(escape_markdown(spoken(error)))


def _begin(work: Callable[[Task], T], task: Task, language: str) -> Future[T]:
    """Start the work in a thread, which speaks the visitor's language."""
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
    """Show how far the work is until it ends, or the visitor wants something else."""
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
    """End this run of the page if its visitor has done something since."""
    if is_rerun_wanted():
        rerun()


def rerun() -> None:
    """Run the fragment of the page once more, or the page where it has none."""
    st.rerun(scope="fragment" if is_in_fragment() else "app")


def _words(task: Task, label: str) -> str:
    return escape_markdown(task.words or label)


def _offer_to_go_on(place: DeltaGenerator, key: str) -> None:
    with layout.row("center", place=place):
        layout.quiet(say("Stopped."), fit=True)
        st.button(say("go on"), key=_widget("go-on", key), on_click=_go_on, args=(key,))


def _widget(what: str, key: str) -> str:
    """A key of its own for each button: the same work may be shown twice in one run of a page."""
    count = st.session_state.get(COUNT, 0)
    st.session_state[COUNT] = count + 1
    return f"{what}-{key}-{count}"


def _marks() -> dict[str, object]:
    marks: dict[str, object] = st.session_state.setdefault(MARKS, {})
    return marks


def _is_stopped(key: str, about: object) -> bool:
    """Whether the visitor stopped this very work; a stop of other work of that name is lifted."""
    marks = _marks()
    if key in marks and marks[key] != about:
        del marks[key]
    return key in marks


def _stop(key: str, about: object) -> None:
    _marks()[key] = about


def _go_on(key: str) -> None:
    _marks().pop(key, None)
