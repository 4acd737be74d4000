"""What a hand waits for goes first: others pause while a live frame or a tile is made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PAUSE = 1.0  # seconds that others wait at once for frames in the making


class Priority:
    """Counts the frames in the making; whoever else computes asks it now and then.

    Python runs one thread at a time and knows no priorities: beside a search and ten page runs a
    frame would get a twelfth of the processor. So the others pause, each time for a stated while
    at most, and nobody is starved.
    """

    def __init__(self) -> None:
        self._urgent = 0
        self._change = threading.Condition()

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Others give way to what is done inside."""
        with self._change:
            self._urgent += 1
        try:
            yield
        finally:
            with self._change:
                self._urgent -= 1
                if not self._urgent:
                    self._change.notify_all()

    def give_way(self, seconds: float | None = None) -> bool:
        """Wait until nothing urgent is done, so long at most (PAUSE); whether that came."""
        with self._change:
            return self._change.wait_for(
                lambda: not self._urgent, PAUSE if seconds is None else seconds
            )


PRIORITY = Priority()  # of this process: all its threads share one interpreter
