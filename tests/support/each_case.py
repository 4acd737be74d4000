"""Cases of one law in one test: each is tried, and those that fail are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def each(cases: Iterable[tuple[str, Case]], check: Callable[[Case], object]) -> None:
    """Check every case, also those behind one that fails.

    Raises:
        AssertionError: names the cases that failed and what each raised.
    """
    failed: list[tuple[str, BaseException]] = []
    for name, case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            failed.append((name, error))
    if failed:
        said = [f"{name}: {type(error).__name__}: {error}" for name, error in failed]
        raise AssertionError("\n".join(said)) from failed[0][1]
