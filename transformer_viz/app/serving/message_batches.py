"""Batches of a page run's messages to the server's event loop.

Streamlit wakes its loop for each message of a page, and once more to send it. For a class that is a
good part of the loop's work. At each message the thread that draws a page gives up its turn. Here
messages are collected for a moment, and passed on in order.
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

WAIT = 0.008  # seconds, half of a screen's frame time

Callback = Callable[[], None]
_wake_for = AppSession._call_soon_on_event_loop
_wake = Runtime._enqueued_some_message
_create_runner = AppSession._create_scriptrunner


class Batch:
    """Pending callbacks of one session for the event loop, in order."""

    def __init__(self) -> None:
        self._waiting: list[Callback] = []
        self._lock = threading.Lock()

    def add(self, callback: Callback) -> bool:
        """Add a callback; return True if it is the first, so that a call must be scheduled."""
        with self._lock:
            self._waiting.append(callback)
            return len(self._waiting) == 1

    def call(self) -> None:
        """Call all callbacks, also after one has failed."""
        with self._lock:
            callbacks, self._waiting = self._waiting, []
        loop = asyncio.get_running_loop()
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # as the loop itself does with a failed callback
                told = {"message": "A message of a page run failed.", "exception": error}
                loop.call_exception_handler(told)


_BATCHES: WeakKeyDictionary[AppSession, Batch] = WeakKeyDictionary()


def gather() -> None:
    """Make all sessions of this process pass their messages in batches."""
    session: Any = AppSession
    runtime: Any = Runtime
    session._call_soon_on_event_loop, runtime._enqueued_some_message = _soon, _enqueued
    session._create_scriptrunner = _create_after_delivery


def _soon(session: AppSession, callback: Callback) -> None:
    """Replace `AppSession._call_soon_on_event_loop`, in any thread."""
    batch = _BATCHES.get(session) or _BATCHES.setdefault(session, Batch())
    if batch.add(callback):
        _wake_for(session, partial(_later, session._event_loop, batch))


def _create_after_delivery(session: AppSession, rerun_data: RerunData) -> None:
    """Replace `AppSession._create_scriptrunner`, and keep the last run's messages.

    A session ignores messages of an older runner. If a fragment requests a run just after the last
    one, that one's final messages would still be in the batch. A browser would go on showing "…".
    Messages of a run that was stopped for a newer one stay ignored.
    """
    batch = _BATCHES.get(session)
    if batch is not None and asyncio._get_running_loop() is session._event_loop:
        batch.call()
    _create_runner(session, rerun_data)


def _later(loop: asyncio.AbstractEventLoop, batch: Batch) -> None:
    loop.call_later(WAIT, batch.call)


def _enqueued(runtime: Runtime) -> None:
    """Replace `Runtime._enqueued_some_message`: on the loop no wake-up is needed."""
    needed = runtime._get_async_objs()
    if asyncio._get_running_loop() is needed.eventloop:
        needed.need_send_data.set()
    else:
        _wake(runtime)
