"""Progress and cancellation of work that a user waits for.

The working thread reports its progress, and another thread reads it. They share nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...i18n import mark, say

POLL = 0.1  # seconds between two checks of waiting work for its abandonment
WAITING = mark("Waiting for another run to end ...")


def waiting_for(others: int) -> str:
    """Return the message shown while a run waits for other runs."""
    return say(WAITING) if others < 2 else say("Waiting for {others} other runs ...", others=others)


class Abandoned(Exception):
    """The work was abandoned: no user waits for it any more."""


class Task:
    """Unit of work in progress.

    Attributes:
        done: Finished part (0...1).
        words: Description of the current work if it differs from the request, else empty.
        visitor: The user; runs of one user take turns with those of others.
        rest: Set by a gate that may make the work wait between two steps.
    """

    def __init__(self, visitor: object = None) -> None:
        self.done = 0.0
        self.words = ""
        self.visitor = self if visitor is None else visitor
        self.rest: Callable[[], None] | None = None
        self._abandoned = threading.Event()

    @property
    def abandoned(self) -> bool:
        """True if the work has to stop."""
        return self._abandoned.is_set()

    def abandon(self) -> None:
        """Stop the work at its next step."""
        self._abandoned.set()

    def check(self) -> None:
        """Check that the work is still wanted.

        Raises:
            Abandoned: The task was abandoned.
        """
        if self.abandoned:
            raise Abandoned("Nobody waits for this work any more.")

    def step(self, done: int, of: int) -> None:
        """Report progress: ``done`` steps of at most ``of``.

        Raises:
            Abandoned: The task was abandoned.
        """
        self.check()
        self.done = min(1.0, done / max(1, of))
        if self.rest is not None:
            self.rest()

    @contextmanager
    def busy(self, words: str) -> Iterator[None]:
        """Set the description of the current work within the block."""
        outer, self.words = self.words, words
        try:
            yield
        finally:
            self.words = outer

    def until(self, ready: Callable[[float], bool], words: Callable[[], str]) -> None:
        """Wait until ``ready`` returns True.

        Args:
            ready: Called with the seconds it may wait.
            words: Returns the message shown meanwhile; called at each check.

        Raises:
            Abandoned: The task was abandoned.
        """
        if ready(0):
            return
        with self.busy(words()):
            while not ready(POLL):
                self.check()
                self.words = words()
