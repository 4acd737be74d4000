"""Limit of the number of concurrent runs, for all users together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....i18n import say
from ..task import Task, waiting_for
from .priority import PRIORITY

Limit = float | Callable[[], float]
TURN = 0.25  # seconds of a long run until waiting ones go on


@dataclass(eq=False)
class _Ticket:
    """A run that is not over.

    Attributes:
        long: True if it may take many passes.
        endless: True if it has no time limit.
    """

    visitor: object
    long: bool
    endless: bool = False
    inside: bool = False
    since: float = 0.0
    used: float = 0.0  # seconds running, before ``since``


class RunSlots:
    """Slots for runs, in order of arrival; runs that are abandoned while waiting are removed.

    Long runs take turns: between two passes a run re-queues if others wait, at once for a short
    one. A user's second run waits for everybody's first. With two slots or more, one is kept free
    of long runs, for slider frames. A run that has computed for ``most`` seconds (0: no limit) ends
    at its next step.
    """

    def __init__(self, places: int, turn: float = TURN, most: Limit = 0) -> None:
        self.free, self.turn = places, turn
        self.most = most if callable(most) else lambda: most
        self.free_long = max(1, places - 1)
        self._line: list[_Ticket] = []
        self._unfinished: list[_Ticket] = []
        self._change = threading.Condition()

    @property
    def waiting(self) -> int:
        """Number of waiting runs."""
        return len(self._line)

    @property
    def waiting_long(self) -> int:
        """Number of waiting long runs."""
        with self._change:
            return sum(one.long for one in self._line)

    @contextmanager
    def place(self, task: Task, long: bool = False, endless: bool = False) -> Iterator[None]:
        """Hold a slot within the block; the task shows a message while it waits.

        Args:
            task: Task of the run.
            long: The run may have to wait again at each step of its task.
            endless: The run works for many users, and has no time limit.

        Raises:
            ValueError: A long run has reached the time limit.
            Abandoned: The task was abandoned while it waited.
        """
        ticket = _Ticket(task.visitor, long, endless)
        with self._change:
            self._unfinished.append(ticket)
        try:
            self._wait(ticket, task)
            if long:
                task.rest = lambda: self._rest(ticket, task)
            yield
        finally:
            task.rest = None
            with self._change:
                self._unfinished.remove(ticket)
                self._leave(ticket)

    def _wait(self, ticket: _Ticket, task: Task) -> None:
        """Wait in the queue for a slot."""
        with self._change:
            self._line.append(ticket)
        try:
            task.until(lambda s: self._enter(ticket, s), lambda: waiting_for(self._others(ticket)))
        except BaseException:
            with self._change:
                if ticket in self._line:
                    self._line.remove(ticket)
                self._change.notify_all()
            raise

    def _enter(self, ticket: _Ticket, seconds: float) -> bool:
        """Take a slot if it is this ticket's turn within the time."""
        with self._change:
            if not self._change.wait_for(lambda: self._next() is ticket, seconds):
                return False
            self._line.remove(ticket)
            self.free -= 1
            self.free_long -= ticket.long
            ticket.inside, ticket.since = True, time.monotonic()
            self._change.notify_all()  # there may be a slot for the next one too
            return True

    def _next(self) -> _Ticket | None:
        """Return the ticket that may enter now, or None."""
        able = [one for one in self._line if not one.long or self.free_long > 0]
        return min(able, key=self._earlier, default=None) if self.free > 0 else None

    def _earlier(self, ticket: _Ticket) -> int:
        """Return the number of unfinished runs of this kind that its user started before."""
        mine = (one for one in self._unfinished if one.visitor == ticket.visitor)
        same = [one for one in mine if one.long == ticket.long]
        return same.index(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        """Release the slot, if the ticket holds one."""
        if ticket.inside:
            ticket.used += time.monotonic() - ticket.since
        self.free += ticket.inside
        self.free_long += ticket.inside and ticket.long
        ticket.inside = False
        self._change.notify_all()

    def _rest(self, ticket: _Ticket, task: Task) -> None:
        """Give way between two passes to frames and short runs; after its turn to long runs too."""
        frames = not PRIORITY.give_way(0)
        with self._change:
            spent = time.monotonic() - ticket.since
            most = self.most()
            if most and ticket.used + spent > most and not ticket.endless:
                raise ValueError(
                    say(
                        "This run has computed for {most} s, which is the most here; ask for less, "
                        "or open the app on your own machine.",
                        most=most,
                    )
                )
            short = self.free <= 0 and any(not one.long for one in self._line)
            others = spent >= self.turn and any(one.long for one in self._line)
            if not (frames or short or others):
                return
            self._leave(ticket)
        PRIORITY.give_way()  # without a slot, which a frame may need
        self._wait(ticket, task)

    def _others(self, ticket: _Ticket) -> int:
        """Return the number of runs before this one, running ones included."""
        with self._change:
            inside = sum(one.inside for one in self._unfinished)
            own = self._earlier(ticket)
            before = self._line[: self._line.index(ticket)] if ticket in self._line else []
            return inside + sum(self._earlier(one) <= own for one in before)
