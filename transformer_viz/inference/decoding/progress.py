"""Progress callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Progress:
    """Progress callback that stores its exception, so that it is not taken for another failure.

    Attributes:
        error: Exception of the callback; None while it returns.
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
