"""How many models of its own a visit has loaded: names are free, so one could ask without end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .... import settings
from ....i18n import say
from ..model_names import is_own, parted

WHILE = 600.0  # seconds for which a model that was loaded counts


class ModelShares:
    """Which models of their own, or of other words, visitors have asked for lately.

    Looking at one of them again costs nothing. Models in the box as they are do not count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._asked: dict[object, dict[str, float]] = {}
        self._lock = threading.Lock()

    def require(self, visitor: object, name: str) -> None:
        """Note that a visitor wants a model.

        Args:
            visitor: who a `Task` works for; of one without a visit it is the task.
            name: of the model.

        Raises:
            ValueError: it is one more than a visit may load in ten minutes; says when it may.
        """
        if not isinstance(visitor, str) or not (is_own(name) or parted(name)[1]):
            return
        most = settings.MODELS_A_VISIT.number
        if not most:
            return
        with self._lock:
            now = self.clock()
            self._forget(now - WHILE)
            asked = self._asked.setdefault(visitor, {})
            if name not in asked and len(asked) >= most:
                wait = WHILE - (now - min(asked.values()))
                raise ValueError(
                    say(
                        "A visit may load {most} models of its own in ten minutes, and has done "
                        "so. Look at one of them again, or wait {seconds} s for another one.",
                        most=most,
                        seconds=max(1, round(wait + 0.5)),
                    )
                )
            asked.setdefault(name, now)

    def _forget(self, before: float) -> None:
        """Let go of what was asked for the first time before a moment."""
        for visitor, asked in tuple(self._asked.items()):
            kept = {name: when for name, when in asked.items() if when > before}
            if kept:
                self._asked[visitor] = kept
            else:
                del self._asked[visitor]
