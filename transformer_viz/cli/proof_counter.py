"""Progress of a capture check on the command line; Ctrl-C stops the check and keeps the maps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .terminal import Counter


@contextmanager
def proof_counter() -> Iterator[Callable[[int, int], bool]]:
    """Yield a progress callback for a trace.

    From its first call on, Ctrl-C stops the check; a second one ends the program, as usual.
    """
    counter, stopped, before = Counter("passes of the proof (Ctrl-C stops it)"), False, None

    def stop(number: int, frame: Any) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True

    def tell(done: int, of: int) -> bool:
        nonlocal before
        if before is None and threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGINT, stop)
        counter.tell(done)
        return not stopped

    try:
        yield tell
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        counter.close()
