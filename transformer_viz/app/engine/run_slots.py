"""A gate that lets only so many runs in at a time, however many visitors there are."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from ...i18n import say
from .task import WAITING, Task


class RunSlots:
    """Who comes first goes in first; who gives up while waiting leaves no gap."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._line: deque[object] = deque()
        self._change = threading.Condition()

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._line)

    @contextmanager
    def place(self, task: Task) -> Iterator[None]:
        """A place inside, waited for if need be; the task says so meanwhile.

        Raises:
            Abandoned: the task was given up while it waited.
        """
        ticket = object()
        with self._change:
            self._line.append(ticket)
        try:
            task.until(lambda seconds: self._enter(ticket, seconds), say(WAITING))
        except BaseException:
            self._leave(ticket)
            raise
        try:
            yield
        finally:
            with self._change:
                self.free += 1
                self._change.notify_all()

    def _enter(self, ticket: object, seconds: float) -> bool:
        """Take a place if it is this ticket's turn within the time."""
        with self._change:
            if not self._change.wait_for(lambda: self._turn(ticket), seconds):
                return False
            self._line.popleft()
            self.free -= 1
            self._change.notify_all()  # there may be a place for the next one too
            return True

    def _turn(self, ticket: object) -> bool:
        return self.free > 0 and self._line[0] is ticket

    def _leave(self, ticket: object) -> None:
        with self._change:
            self._line.remove(ticket)
            self._change.notify_all()
