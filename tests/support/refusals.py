"""One line for a call that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refuses(
    match: str | None,
    call: Callable,
    *given: Any,
    error: type[BaseException] = ValueError,
    **words: Any,
) -> None:
    """Assert that a call raises ``error``, and that its message matches where one is given."""
    with pytest.raises(error, match=match):
        call(*given, **words)
