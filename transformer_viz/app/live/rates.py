"""How often somebody may ask: a bucket for each, which fills with time."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST_KEYS = 20_000  # askers that are remembered, those who asked last


class Rates:
    """Buckets of one size: ``a_second`` comes in, ``burst`` is the most that one holds.

    Who asks seldom finds it full. All methods may be called from any thread.
    """

    def __init__(
        self, a_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.a_second, self.burst, self.clock = a_second, burst, clock
        self._held: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, who: Hashable, cost: float = 1.0) -> float:
        """Take so much; 0 if it was there, else the seconds until it will be, and nothing is taken.

        What costs more than a bucket holds is let through where the bucket is full.
        """
        with self._lock:
            level = self._level(who)
            lacks = min(cost, self.burst) - level
            if lacks <= 0:
                level -= cost
            self._held[who] = (level, self.clock())
            self._held.move_to_end(who)
            while len(self._held) > MOST_KEYS:
                self._held.popitem(last=False)
            return max(0.0, lacks / self.a_second) if lacks > 0 else 0.0

    def lacks(self, who: Hashable, cost: float = 1.0) -> float:
        """Return what `wait` would, and take nothing."""
        with self._lock:
            return max(0.0, (min(cost, self.burst) - self._level(who)) / self.a_second)

    def give_back(self, who: Hashable, cost: float) -> None:
        """Return what was taken for something that was not done."""
        with self._lock:
            if who in self._held:
                self._held[who] = (min(self.burst, self._level(who) + cost), self.clock())

    def _level(self, who: Hashable) -> float:
        now = self.clock()
        level, since = self._held.get(who, (self.burst, now))
        return min(self.burst, level + max(0.0, now - since) * self.a_second)


def whole_seconds(wait: float) -> int:
    """Seconds to wait as a header and a sentence say them: 1 at least."""
    return max(1, math.ceil(wait))
