"""A page's messages reach the server's loop in their order, with few wakings of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession

from transformer_viz.app.serving import message_batches

SAID = 90  # messages of a page run


class Session:
    """As much of a session as wakes the loop; `woken` counts how often."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._event_loop = loop


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread of its own."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What was given to Streamlit's own way to wake the loop."""
    found: list[Callable[[], None]] = []
    own = message_batches._wake_for

    def wake(session: Any, callback: Callable[[], None]) -> None:
        found.append(callback)
        own(session, callback)

    monkeypatch.setattr(message_batches, "_wake_for", wake)
    return found


def test_all_come_in_order_and_the_loop_is_woken_seldom(
    loop: asyncio.AbstractEventLoop, woken: list[Callable[[], None]]
) -> None:
    session: Any = Session(loop)
    heard: list[int] = []
    for number in range(SAID):
        message_batches._soon(session, lambda number=number: heard.append(number))
    _until(lambda: len(heard) == SAID)
    assert heard == list(range(SAID))
    assert len(woken) < SAID / 3


def test_later_ones_wake_it_again(
    loop: asyncio.AbstractEventLoop, woken: list[Callable[[], None]]
) -> None:
    session: Any = Session(loop)
    heard: list[str] = []
    message_batches._soon(session, lambda: heard.append("first"))
    _until(lambda: heard == ["first"])
    message_batches._soon(session, lambda: heard.append("second"))
    _until(lambda: heard == ["first", "second"])
    assert len(woken) == 2


def test_one_that_fails_is_told_and_the_others_come(loop: asyncio.AbstractEventLoop) -> None:
    session: Any = Session(loop)
    told: list[Any] = []
    loop.set_exception_handler(lambda _, words: told.append(words["exception"]))
    heard: list[str] = []
    message_batches._soon(session, lambda: 1 / 0 and None)
    message_batches._soon(session, lambda: heard.append("after"))
    _until(lambda: heard == ["after"])
    assert [type(error) for error in told] == [ZeroDivisionError]


def test_a_loop_that_is_closed_drops_what_comes() -> None:
    closed = asyncio.new_event_loop()
    closed.close()
    message_batches._soon(Session(closed), lambda: None)  # type: ignore[arg-type]


def test_on_the_loop_the_event_is_set_at_once(loop: asyncio.AbstractEventLoop) -> None:
    set_on: list[int] = []
    event = SimpleNamespace(set=lambda: set_on.append(threading.get_ident()))
    needed = SimpleNamespace(eventloop=loop, need_send_data=event)
    runtime: Any = SimpleNamespace(_get_async_objs=lambda: needed)
    message_batches._enqueued(runtime)  # of this thread, which is not the loop's
    _until(lambda: len(set_on) == 1)
    loop.call_soon_threadsafe(lambda: message_batches._enqueued(runtime))
    _until(lambda: len(set_on) == 2)
    assert threading.get_ident() not in set_on


def test_streamlit_still_has_what_is_changed() -> None:
    assert callable(AppSession._call_soon_on_event_loop)
    assert callable(Runtime._enqueued_some_message) and callable(Runtime._get_async_objs)


def _until(done: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 10
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)
