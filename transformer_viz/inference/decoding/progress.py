"""Callbacks that are told how far a piece of work is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Progress:
    """A progress callback that keeps what it raised, so that nothing takes that for a failure.

    Attributes:
        error: what the callback raised; None as long as it returned.
    """

    def __init__(self, on_progress: Callable[..., Any] | None) -> None:
        self.on_progress = on_progress
        self.error: BaseException | None = None

    def __call__(self, *words: Any) -> Any:
        """Call the callback; None where there is none."""
        if self.on_progress is None:
            return None
        try:
            return self.on_progress(*words)
        except BaseException as error:
            self.error = error
            raise
