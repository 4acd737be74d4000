"""Work that a visitor waits for: how far it is, what it is busy with, whether it is still wanted.

One thread works and says how far it is, another one looks; both know nothing else of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...i18n import mark, say

POLL = 0.1  # seconds after which work that waits looks whether it is still wanted
WAITING = mark("Waiting for another run to end ...")


def waiting_for(others: int) -> str:
    """What is said to who waits for so many other runs."""
    return say(WAITING) if others < 2 else say("Waiting for {others} other runs ...", others=others)


class Abandoned(Exception):
    """Nobody waits for this work any more."""


class Task:
    """One piece of work in progress.

    ``done`` is the part that is done (0...1), ``words`` what it is busy with if that is something
    else than was asked for; empty otherwise. ``visitor`` is whoever asked: the runs of one take
    turns with those of others. ``rest`` is set by a gate that may make the work wait between two
    steps.
    """

    def __init__(self, visitor: object = None) -> None:
        self.done = 0.0
        self.words = ""
        self.visitor = self if visitor is None else visitor
        self.rest: Callable[[], None] | None = None
        self._abandoned = threading.Event()

    @property
    def abandoned(self) -> bool:
        """Whether it has been told to stop."""
        return self._abandoned.is_set()

    def abandon(self) -> None:
        """Tell the work to stop; it does so at its next step."""
        self._abandoned.set()

    def check(self) -> None:
        """Go on if this is still wanted.

        Raises:
            Abandoned: nobody waits for it any more.
        """
        if self.abandoned:
            raise Abandoned("Nobody waits for this work any more.")

    def step(self, done: int, of: int) -> None:
        """Say how far the work is: so many steps of at most so many.

        Raises:
            Abandoned: nobody waits for it any more.
        """
        self.check()
        self.done = min(1.0, done / max(1, of))
        if self.rest is not None:
            self.rest()

    @contextmanager
    def busy(self, words: str) -> Iterator[None]:
        """Say what the work is busy with meanwhile."""
        outer, self.words = self.words, words
        try:
            yield
        finally:
            self.words = outer

    def until(self, ready: Callable[[float], bool], words: Callable[[], str]) -> None:
        """Wait for something that tells, within the seconds it is given, whether it is there.

        ``words`` gives what to say meanwhile, at each look anew.

        Raises:
            Abandoned: nobody waits for this work any more.
        """
        if ready(0):
            return
        with self.busy(words()):
            while not ready(POLL):
                self.check()
                self.words = words()
