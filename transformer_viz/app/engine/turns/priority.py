"""Priority of slider frames and map tiles over other work; others pause while they are made.

Each user has a share of the processor time. Frames of users over their share come last, and no
other work pauses for them. A flood of frames thus takes only the time that is left.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..task import POLL, Abandoned

PAUSE = 1.0  # seconds that other work waits at once for frames
SOON = 2.0  # seconds after which a frame is late, and no other work pauses for it
PLACES = 2  # frames made at once: more of them only delay each other
LATELY = 10.0  # seconds in which counted time decays to 1/e
SHARE, LEAST = 3.0, 0.5  # seconds of processor time, decayed: of all users, and each one's minimum
TRIFLE = 0.05  # seconds of processor time below which a user is not counted as active


@dataclass(eq=False)
class _Frame:
    """A requested frame.

    Attributes:
        visitor: The user who requested it.
        newest: True if a newer frame of the user replaces it while it waits.
        asked: Time of the request.
        spent: True if the user's share is used up.
        replaced: True if a newer frame has replaced it.
    """

    visitor: object
    newest: bool
    asked: float
    spent: bool = False
    replaced: bool = False

    @property
    def late(self) -> bool:
        return time.monotonic() - self.asked > SOON


class Priority:
    """Counter of the frames being made; other work checks it regularly and pauses.

    Python runs one thread at a time, without priorities: beside a search and ten page runs a frame
    would get a twelfth of the processor. So the others pause, each time for a stated time at most.
    No work pauses for a late frame of a slow model.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._waiting: list[_Frame] = []
        self._inside: list[_Frame] = []
        self._taken: dict[object, tuple[float, float]] = {}  # decayed seconds, and when
        self._change = threading.Condition()
        self._own = threading.local()

    @contextmanager
    def urgent(self, visitor: object = None, newest: bool = False) -> Iterator[None]:
        """Give the block priority over other work while its user's share lasts.

        Args:
            visitor: The user; None has no share, and is always urgent.
            newest: While it waits, a newer frame of the same user replaces it.

        Raises:
            Abandoned: A newer frame was requested.
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
        """Mark a block in which a frame waits for other work; it frees the slot meanwhile.

        No work pauses for the frame then; otherwise it could wait for a search that pauses for it.
        """
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
        """Wait until no urgent work runs, at most ``seconds`` (PAUSE). Return True if none runs.

        Urgent work itself does not wait.
        """
        own: _Frame | None = getattr(self._own, "frame", None)
        if own is not None and not own.spent:
            return True
        with self._change:
            return self._change.wait_for(self._is_free, PAUSE if seconds is None else seconds)

    def _enter(self, frame: _Frame) -> None:
        """Wait for a slot; the user with the least recent processor time goes first."""
        with self._change:
            for other in self._waiting if frame.newest else ():
                other.replaced |= other.newest and other.visitor == frame.visitor
            self._waiting.append(frame)
            self._change.notify_all()
            try:
                while not frame.replaced and self._next() is not frame:
                    self._change.wait(POLL)  # lateness and shares change without a notification
            finally:
                self._waiting.remove(frame)
                self._change.notify_all()
            if frame.replaced:
                raise Abandoned("A newer frame of this visit was asked for.")
            self._inside.append(frame)

    def _next(self) -> _Frame | None:
        """Return the frame that may start now, or None."""
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
        """Return the decayed seconds of processor time that a user may have used."""
        for visitor in [one for one in self._taken if self._taken_by(one) <= TRIFLE]:
            del self._taken[visitor]
        return max(LEAST, SHARE / max(1, len(self._taken)))

    def _taken_by(self, visitor: object) -> float:
        """Return the decayed seconds of processor time of a user's frames."""
        taken, when = self._taken.get(visitor, (0.0, 0.0))
        return taken * math.exp((when - self.clock()) / LATELY)

    def _is_free(self) -> bool:
        return all(frame.late or frame.spent for frame in (*self._inside, *self._waiting))


PRIORITY = Priority()  # one per process: all its threads share one interpreter
