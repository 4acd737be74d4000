"""Limit of the models that a session may load: names are free, so requests would be unlimited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .... import settings
from ....i18n import say
from ..model_names import is_own, parted

WHILE = 600.0  # seconds for which a loaded model counts


class ModelShares:
    """Recent requests of sessions for users' models, or for overrides.

    A repeated request is free. Unchanged bundled models do not count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._asked: dict[object, dict[str, float]] = {}
        self._lock = threading.Lock()

    def require(self, visitor: object, name: str) -> None:
        """Count a session's request for a model.

        Args:
            visitor: User of the `Task`; for a task without a session it is the task itself.
            name: Name of the model.

        Raises:
            ValueError: The session has reached its limit for ten minutes; the message gives the
                wait.
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
        """Remove models that were first requested before a moment."""
        for visitor, asked in tuple(self._asked.items()):
            kept = {name: when for name, when in asked.items() if when > before}
            if kept:
                self._asked[visitor] = kept
            else:
                del self._asked[visitor]
