"""What a hand waits for goes first: others pause while a live frame or a tile is made.

Each visitor has a share of it. Frames of who has taken more of late come after everybody's else,
and nobody pauses for them: so a flood of frames takes the time that is left, and no other.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..task import POLL, Abandoned

PAUSE = 1.0  # seconds that others wait at once for frames in the making
SOON = 2.0  # seconds after which a frame is late anyway, and nobody waits for it any more
PLACES = 2  # frames in the making at once: more of them only make each other late
LATELY = 10.0  # seconds in which what was taken falls to 1/e
SHARE, LEAST = 3.0, 0.5  # seconds of processor that all together may have taken of late, and each
TRIFLE = 0.05  # seconds of processor below which a visitor is not counted among those who ask


@dataclass(eq=False)
class _Frame:
    """One that is asked for: by whom, whether a newer one of theirs takes its place while it
    waits, when it was asked for, and whether its visitor has had its share."""

    visitor: object
    newest: bool
    asked: float
    spent: bool = False
    replaced: bool = False

    @property
    def late(self) -> bool:
        return time.monotonic() - self.asked > SOON


class Priority:
    """Counts the frames in the making; whoever else computes asks it now and then.

    Python runs one thread at a time and knows no priorities: beside a search and ten page runs a
    frame would get a twelfth of the processor. So the others pause, each time for a stated while
    at most, and none of them for a frame of a model that is too slow for a hand.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._waiting: list[_Frame] = []
        self._inside: list[_Frame] = []
        self._taken: dict[object, tuple[float, float]] = {}  # seconds of processor, and when
        self._change = threading.Condition()
        self._own = threading.local()

    @contextmanager
    def urgent(self, visitor: object = None, newest: bool = False) -> Iterator[None]:
        """Others give way to what is done inside, while its visitor's share lasts.

        Args:
            visitor: whose it is; None has no share, and is always urgent.
            newest: one that still waits makes room for a newer one of the same visitor.

        Raises:
            Abandoned: a newer one has come.
        """
        frame = _Frame(visitor, newest, time.monotonic())
        self._enter(frame)
        self._own.frame, began = frame, time.thread_time()
        try:
            yield
        finally:
            self._own.frame = None
            with self._change:
                self._inside.remove(frame)
                if visitor is not None:
                    taken = self._taken_by(visitor) + time.thread_time() - began
                    self._taken[visitor] = taken, self.clock()
                self._change.notify_all()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what others compute for a frame: meanwhile nobody pauses for it, and its place is
        free; else it would wait for a search that pauses for it."""
        frame: _Frame | None = getattr(self._own, "frame", None)
        if frame is None:
            yield
            return
        with self._change:
            self._inside.remove(frame)
            self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._inside.append(frame)

    def give_way(self, seconds: float | None = None) -> bool:
        """Wait until nothing urgent is done, so long at most (PAUSE); whether that came.

        What is urgent itself does not wait.
        """
        own: _Frame | None = getattr(self._own, "frame", None)
        if own is not None and not own.spent:
            return True
        with self._change:
            return self._change.wait_for(self._is_free, PAUSE if seconds is None else seconds)

    def _enter(self, frame: _Frame) -> None:
        """Wait for one of the places: who has taken least of late goes first."""
        with self._change:
            for other in self._waiting if frame.newest else ():
                other.replaced |= other.newest and other.visitor == frame.visitor
            self._waiting.append(frame)
            self._change.notify_all()
            try:
                while not frame.replaced and self._next() is not frame:
                    self._change.wait(POLL)  # frames become late, and shares grow, without a word
            finally:
                self._waiting.remove(frame)
                self._change.notify_all()
            if frame.replaced:
                raise Abandoned("A newer frame of this visit was asked for.")
            self._inside.append(frame)

    def _next(self) -> _Frame | None:
        """Who may begin now."""
        share = self._share()
        for frame in self._waiting:
            frame.spent = frame.visitor is not None and self._taken_by(frame.visitor) > share
        young = [frame for frame in self._inside if not frame.late]
        able = [frame for frame in self._waiting if not frame.spent]
        if not able and not young:
            able = self._waiting
        if len(young) >= PLACES:
            return None
        return min(able, key=lambda frame: self._taken_by(frame.visitor), default=None)

    def _share(self) -> float:
        """Seconds of processor that a visitor may have taken of late."""
        for visitor in [one for one in self._taken if self._taken_by(one) <= TRIFLE]:
            del self._taken[visitor]
        return max(LEAST, SHARE / max(1, len(self._taken)))

    def _taken_by(self, visitor: object) -> float:
        """Seconds of processor that a visitor's frames have taken of late."""
        taken, when = self._taken.get(visitor, (0.0, 0.0))
        return taken * math.exp((when - self.clock()) / LATELY)

    def _is_free(self) -> bool:
        return all(frame.late or frame.spent for frame in (*self._inside, *self._waiting))


PRIORITY = Priority()  # of this process: all its threads share one interpreter
