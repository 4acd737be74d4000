"""What a hand waits for goes first: others pause while a live frame or a tile is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PAUSE = 1.0  # seconds that others wait at once for frames in the making
SOON = 2.0  # seconds after which a frame is late anyway, and nobody waits for it any more


class Priority:
    """Counts the frames in the making; whoever else computes asks it now and then.

    Python runs one thread at a time and knows no priorities: beside a search and ten page runs a
    frame would get a twelfth of the processor. So the others pause, each time for a stated while
    at most, and none of them for a frame of a model that is too slow for a hand.
    """

    def __init__(self) -> None:
        self._begun: list[float] = []
        self._change = threading.Condition()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Others give way to what is done inside."""
        begun = time.monotonic()
        with self._change:
            self._begun.append(begun)
        try:
            yield
        finally:
            with self._change:
                self._begun.remove(begun)
                if not self._begun:
                    self._change.notify_all()

    def give_way(self, seconds: float | None = None) -> bool:
        """Wait until nothing urgent is done, so long at most (PAUSE); whether that came."""
        with self._change:
            return self._change.wait_for(self._is_free, PAUSE if seconds is None else seconds)

    def _is_free(self) -> bool:
        now = time.monotonic()
        return all(now - begun > SOON for begun in self._begun)


PRIORITY = Priority()  # of this process: all its threads share one interpreter
