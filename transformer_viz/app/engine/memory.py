"""Memory that was used once is handed back to the system.

The C library keeps what was freed for the next time: after a page of text that can be more than
all that is remembered of it.
"""

from __future__ import annotations

import ctypes
import gc
import threading
from contextlib import suppress

LARGE = 8_000_000  # bytes of a run from which on it is worth while
CALM = 5.0  # seconds to wait: whoever moves a slider makes many runs, and one hand-over is enough

_waiting = threading.Lock()


def after_a_run(size: int, long: bool = False) -> None:
    """Give freed memory back a moment later, once for all runs until then, if it may be much.

    Args:
        size: bytes of what the run gave.
        long: whether it may have taken many passes; what they left is more than it gave.
    """
    if (long or size >= LARGE) and _waiting.acquire(blocking=False):
        timer = threading.Timer(CALM, _give_back_freed)
        timer.daemon = True
        timer.start()


def _give_back_freed() -> None:
    _waiting.release()
    trim()


def give_back() -> None:
    """Give back the memory of models that were forgotten.

    Modules may hold each other in a ring, and frozen rings are never looked at.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    trim()


def trim() -> None:
    """Hand freed memory over; other threads go on meanwhile."""
    with suppress(OSError, AttributeError):  # only the C library of Linux has this
        ctypes.CDLL("libc.so.6").malloc_trim(0)
