"""A gate that lets only so many runs in at a time, however many visitors there are."""

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
TURN = 0.25  # seconds of a long run until others that wait go on


@dataclass(eq=False)
class _Ticket:
    """A run that is not over: whose it is, whether it may take many passes, and any time."""

    visitor: object
    long: bool
    endless: bool = False
    inside: bool = False
    since: float = 0.0
    used: float = 0.0  # seconds inside, before ``since``


class RunSlots:
    """Who comes first goes in first; who gives up while waiting leaves no gap.

    Long runs take turns: between two passes one goes to the end of the line where others wait, at
    once where that is a short one, and a visitor's second run waits for everybody's first. Where
    there are two places or more, one is never theirs: it is left for a slider's frame. One that
    has computed for ``most`` seconds (0: any) ends at its next step.
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
        """How many runs wait for a place."""
        return len(self._line)

    @property
    def waiting_long(self) -> int:
        """How many long ones do."""
        with self._change:
            return sum(one.long for one in self._line)

    @contextmanager
    def place(self, task: Task, long: bool = False, endless: bool = False) -> Iterator[None]:
        """A place inside, waited for if need be; the task says so meanwhile.

        A ``long`` run may have to wait again at each step of its task; an ``endless`` one works for
        many, and has no time of its own.

        Raises:
            ValueError: a long run has computed for as long as one may; says so.
            Abandoned: the task was given up while it waited.
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
        """Stand in the line until there is a place."""
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
        """Take a place if it is this ticket's turn within the time."""
        with self._change:
            if not self._change.wait_for(lambda: self._next() is ticket, seconds):
                return False
            self._line.remove(ticket)
            self.free -= 1
            self.free_long -= ticket.long
            ticket.inside, ticket.since = True, time.monotonic()
            self._change.notify_all()  # there may be a place for the next one too
            return True

    def _next(self) -> _Ticket | None:
        """Who may enter now."""
        able = [one for one in self._line if not one.long or self.free_long > 0]
        return min(able, key=self._earlier, default=None) if self.free > 0 else None

    def _earlier(self, ticket: _Ticket) -> int:
        """How many runs of this kind its visitor began before and has not finished."""
        mine = (one for one in self._unfinished if one.visitor == ticket.visitor)
        same = [one for one in mine if one.long == ticket.long]
        return same.index(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        """Give its place back, if it has one."""
        if ticket.inside:
            ticket.used += time.monotonic() - ticket.since
        self.free += ticket.inside
        self.free_long += ticket.inside and ticket.long
        ticket.inside = False
        self._change.notify_all()

    def _rest(self, ticket: _Ticket, task: Task) -> None:
        """Between two passes: frames go first, and short runs that wait for a place; once its turn
        is over, other long ones too."""
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
        PRIORITY.give_way()  # without a place, which a frame may need
        self._wait(ticket, task)

    def _others(self, ticket: _Ticket) -> int:
        """How many runs are before one, those inside included."""
        with self._change:
            inside = sum(one.inside for one in self._unfinished)
            own = self._earlier(ticket)
            before = self._line[: self._line.index(ticket)] if ticket in self._line else []
            return inside + sum(self._earlier(one) <= own for one in before)
