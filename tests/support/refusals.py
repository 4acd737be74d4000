"""One line for a call that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refuses(
    match: str, call: Callable, *given: Any, error: type[BaseException] = ValueError, **words: Any
) -> None:
    """Assert that a call raises ``error`` with a message that matches."""
    with pytest.raises(error, match=match):
        call(*given, **words)
