"""Runs that somebody has asked for before: a cache bounded in bytes, shared by all visitors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pandas as pd

from ...core.trace import Trace
from ...i18n import say
from .task import WAITING, Task

MEGABYTE = 1_000_000
PAIR = 2  # runs that a visitor compares: the clean one and the changed one
CELL = 16  # bytes a cell of a table costs at most, of the short words in ours too
SMALL = 200  # bytes that anything costs: keys, names, numbers


def size_of(value: Any) -> int:
    """Bytes of the arrays and tables in a trace, or in any nest of plain containers of them."""
    if isinstance(value, np.ndarray):
        return value.nbytes + SMALL
    if isinstance(value, pd.DataFrame):
        return value.size * CELL + SMALL
    if isinstance(value, dict):
        return SMALL + sum(size_of(item) for item in value.values())
    if isinstance(value, list | tuple):
        return SMALL + sum(size_of(item) for item in value)
    if isinstance(value, str):
        return SMALL + len(value)
    if isinstance(value, Trace) or (hasattr(value, "__dict__") and not isinstance(value, type)):
        return SMALL + sum(size_of(item) for item in vars(value).values())
    return SMALL


class Cache:
    """Keeps the values used last, as many as fit into ``limit`` bytes.

    Of values larger than half of that, such as the runs of a page of text, the two used last are
    kept beside the others; a visitor who moves a slider needs both again.

    Values are shared between threads, so they must never be changed. Visitors who ask for the
    same missing value at once wait for one computation; other keys go on meanwhile.
    """

    def __init__(self, limit: int = 256 * MEGABYTE) -> None:
        self.limit = limit
        self.size = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Any], task: Task | None = None) -> Any:
        """The value of a key, made now if it is not there; an error while making is not kept.

        Raises:
            Abandoned: the task was given up while somebody else made the value.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
            making = self._making.setdefault(key, threading.Lock())
        (task or Task()).until(
            lambda seconds: making.acquire(timeout=seconds), lambda: say(WAITING)
        )
        try:
            with self._lock:
                if key in self._values:  # another visitor was faster
                    return self._values[key][0]
            try:
                value = make()
                self._put(key, value)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        finally:
            making.release()
        return value

    def _put(self, key: Hashable, value: Any) -> None:
        size = size_of(value)
        with self._lock:
            self._drop(key)
            self._values[key] = (value, size)
            self.size += size
            large = [name for name, (_, held) in self._values.items() if 2 * held > self.limit]
            for name in large[:-PAIR]:
                self._drop(name)
            beside = sum(self._values[name][1] for name in large[-PAIR:])
            for name in [name for name in self._values if name not in large]:
                if self.size - beside <= self.limit:
                    break
                self._drop(name)

    def _drop(self, key: Hashable) -> None:
        if key in self._values:
            self.size -= self._values.pop(key)[1]
