"""Return of freed memory to the system.

The C library keeps freed memory for later use. After a page of text that can be more than
everything cached of it.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from contextlib import suppress

LARGE = 8_000_000  # bytes of a result from which on a trim is worth its time
CALM = 5.0  # seconds to wait: moving a slider makes many runs, and one trim is enough

_waiting = threading.Lock()


def after_a_run(size: int, long: bool = False) -> None:
    """Schedule one return of freed memory for all runs until then, if it may be much.

    Args:
        size: Bytes of the result.
        long: True if the run may have taken many passes, which leave more than the result's size.
    """
    if (long or size >= LARGE) and _waiting.acquire(blocking=False):
        timer = threading.Timer(CALM, _give_back_freed)
        timer.daemon = True
        timer.start()


def _give_back_freed() -> None:
    _waiting.release()
    trim()


def give_back() -> None:
    """Return the memory of forgotten models to the system.

    Modules may refer to each other in a cycle, and frozen cycles are never collected.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim()


def trim() -> None:
    """Return freed memory to the system; other threads go on meanwhile."""
    with suppress(OSError, AttributeError):  # only the C library of Linux has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)
