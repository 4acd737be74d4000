"""Messages of a page run go to the server's loop in handfuls, not one by one.

Streamlit wakes its loop for each of a page's messages, and once more to have it sent. In a class
that is a good part of what the loop computes, and at each of them the thread that draws a page
gives up its turn. Here what a run says is gathered for a moment, and handed over in its order.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from streamlit.runtime import Runtime
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.scriptrunner import RerunData

WAIT = 0.008  # seconds, half of the time that a screen shows one picture

Callback = Callable[[], None]
_wake_for = AppSession._call_soon_on_event_loop
_wake = Runtime._enqueued_some_message
_create_runner = AppSession._create_scriptrunner


class Batch:
    """What one session has still to do on the server's loop, in order."""

    def __init__(self) -> None:
        self._waiting: list[Callback] = []
        self._lock = threading.Lock()

    def add(self, callback: Callback) -> bool:
        """Keep a callback; whether it is the first, so that somebody must come for them."""
        with self._lock:
            self._waiting.append(callback)
            return len(self._waiting) == 1

    def call(self) -> None:
        """Call what was kept. One that fails does not keep the others from being called."""
        with self._lock:
            callbacks, self._waiting = self._waiting, []
        loop = asyncio.get_running_loop()
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # as the loop itself does with a callback that fails
                told = {"message": "A message of a page run failed.", "exception": error}
                loop.call_exception_handler(told)


_BATCHES: WeakKeyDictionary[AppSession, Batch] = WeakKeyDictionary()


def gather() -> None:
    """Have all sessions of this process hand their messages over in batches."""
    session: Any = AppSession
    runtime: Any = Runtime
    session._call_soon_on_event_loop, runtime._enqueued_some_message = _soon, _enqueued
    session._create_scriptrunner = _create_after_delivery


def _soon(session: AppSession, callback: Callback) -> None:
    """In the place of `AppSession._call_soon_on_event_loop`, of any thread."""
    batch = _BATCHES.get(session) or _BATCHES.setdefault(session, Batch())
    if batch.add(callback):
        _wake_for(session, partial(_later, session._event_loop, batch))


def _create_after_delivery(session: AppSession, rerun_data: RerunData) -> None:
    """In the place of `AppSession._create_scriptrunner`: the last run's messages are kept.

    A session ignores what an older runner sends. If a fragment asks for a run just after the last
    run has ended, its final messages would still be in the batch, and a browser would go on
    showing "…". Messages of a run that was stopped for a newer one stay ignored.
    """
    batch = _BATCHES.get(session)
    if batch is not None and asyncio._get_running_loop() is session._event_loop:
        batch.call()
    _create_runner(session, rerun_data)


def _later(loop: asyncio.AbstractEventLoop, batch: Batch) -> None:
    loop.call_later(WAIT, batch.call)


def _enqueued(runtime: Runtime) -> None:
    """In the place of `Runtime._enqueued_some_message`: on the loop nothing need be woken."""
    needed = runtime._get_async_objs()
    if asyncio._get_running_loop() is needed.eventloop:
        needed.need_send_data.set()
    else:
        _wake(runtime)
