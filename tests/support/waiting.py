"""Wait for what other threads and processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60  # seconds after which a test that hangs gives up


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.02)
