"""Cache of runs, bounded in bytes and shared by all users."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...i18n import say
from .task import WAITING, Task
from .turns.priority import PRIORITY

MEGABYTE = 1_000_000
PAIR = 2  # runs that a user compares: the clean and the changed one
CELL = 16  # maximum bytes of a table's cell, short strings included
ATOMS = frozenset((int, float, bool, type(None), complex, bytes))
_NOBODY = object()
SMALL = 200  # bytes counted for any object: keys, names, numbers


def size_of(value: Any) -> int:
    """Return the bytes of the arrays and tables in a trace or a nested container."""
    size, left = 0, [value]
    while left:  # no recursion: a trace has many small objects
        one = left.pop()
        size += SMALL
        kind = type(one)
        if kind is str:
            size += len(one)
        elif kind in ATOMS:
            continue
        elif isinstance(one, np.ndarray):
            size += one.nbytes
        elif isinstance(one, pd.DataFrame):
            size += one.size * CELL
        elif isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list | tuple):
            left.extend(one)
        elif hasattr(one, "__dict__") and not isinstance(one, type):
            left.extend(vars(one).values())
    return size


@dataclass(frozen=True)
class _Kept:
    """A value, its bytes, and the user it was made for."""

    value: Any
    size: int
    maker: Hashable


class Cache:
    """Least-recently-used cache of at most ``limit`` bytes, fair between users.

    If space is needed, the user with most bytes loses the oldest value. A flood of frames thus
    evicts its own runs only. Two values per user are kept as long as there are others.

    Values larger than half of the limit, such as runs of a page of text, are kept in addition, the
    two used last. A user who moves a slider needs both again.

    Values are shared between threads and must never be changed. Users who request the same missing
    value at once wait for one computation; other keys are not blocked.
    """

    def __init__(self, limit: int = 256 * MEGABYTE) -> None:
        self.limit = limit
        self.size = 0
        self._values: OrderedDict[Hashable, _Kept] = OrderedDict()  # least recently used first
        self._large: OrderedDict[Hashable, int] = OrderedDict()  # sizes by key, in the same order
        self._keys: dict[Hashable, OrderedDict[Hashable, None]] = {}  # of the others, by user
        self._bytes: Counter[Hashable] = Counter()
        self._making: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Any], task: Task | None = None) -> Any:
        """Return the value of a key, computed if missing; errors are not cached.

        Raises:
            Abandoned: The task was abandoned while another thread computed the value.
        """
        with self._lock:
            if key in self._values:
                return self._used(key)
            making = self._making.setdefault(key, threading.Lock())
        if not making.acquire(blocking=False):
            with PRIORITY.waiting():
                (task or Task()).until(
                    lambda seconds: making.acquire(timeout=seconds), lambda: say(WAITING)
                )
        try:
            with self._lock:
                if key in self._values:  # another thread was faster
                    return self._used(key)
            try:
                value = make()
                self._put(key, value, None if task is None else task.visitor)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        finally:
            making.release()
        return value

    def _used(self, key: Hashable) -> Any:
        kept = self._values[key]
        self._values.move_to_end(key)
        (self._large if key in self._large else self._keys[kept.maker]).move_to_end(key)
        return kept.value

    def _put(self, key: Hashable, value: Any, maker: Hashable) -> None:
        kept = _Kept(value, size_of(value), maker)
        with self._lock:
            self._drop(key)
            self._values[key] = kept
            self.size += kept.size
            if 2 * kept.size > self.limit:
                self._large[key] = kept.size
            else:
                self._keys.setdefault(maker, OrderedDict())[key] = None
                self._bytes[maker] += kept.size
            while len(self._large) > PAIR:
                self._drop(next(iter(self._large)))
            while self._bytes.total() > self.limit:
                self._drop(self._next_to_go())

    def _next_to_go(self) -> Hashable:
        """Return the oldest value of the user with most bytes among those with more than a pair."""
        able = (maker for maker, keys in self._keys.items() if len(keys) > PAIR)
        most = max(able, key=self._bytes.__getitem__, default=_NOBODY)
        if most is not _NOBODY:
            return next(iter(self._keys[most]))
        return next(key for key in self._values if key not in self._large)

    def _drop(self, key: Hashable) -> None:
        kept = self._values.pop(key, None)
        if kept is None:
            return
        self.size -= kept.size
        if self._large.pop(key, None) is not None:
            return
        del self._keys[kept.maker][key]
        self._bytes[kept.maker] -= kept.size
        if not self._keys[kept.maker]:
            del self._keys[kept.maker], self._bytes[kept.maker]
