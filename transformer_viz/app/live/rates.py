"""Rate limits: a token bucket per client, which fills with time."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST_KEYS = 20_000  # clients remembered, the most recent ones


class Rates:
    """Token buckets of one size: ``a_second`` is the refill rate, ``burst`` the capacity.

    Buckets of infrequent clients are full. All methods are thread-safe.
    """

    def __init__(
        self, a_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.a_second, self.burst, self.clock = a_second, burst, clock
        self._held: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, who: Hashable, cost: float = 1.0) -> float:
        """Take `cost` tokens. Return 0, or the seconds to wait if there are too few.

        In the latter case no tokens are taken. A cost above the capacity needs a full bucket.
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
        """Return the result of `wait`, without taking tokens."""
        with self._lock:
            return max(0.0, (min(cost, self.burst) - self._level(who)) / self.a_second)

    def give_back(self, who: Hashable, cost: float) -> None:
        """Return the tokens of an action that was not done."""
        with self._lock:
            if who in self._held:
                self._held[who] = (min(self.burst, self._level(who) + cost), self.clock())

    def _level(self, who: Hashable) -> float:
        now = self.clock()
        level, since = self._held.get(who, (self.burst, now))
        return min(self.burst, level + max(0.0, now - since) * self.a_second)


def whole_seconds(wait: float) -> int:
    """Return the seconds to wait for headers and messages: a whole number, at least 1."""
    return max(1, math.ceil(wait))
