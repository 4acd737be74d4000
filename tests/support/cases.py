"""Names for what fails inside a loop over cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

Case = TypeVar("Case")


@contextmanager
def case(*name: object) -> Iterator[None]:
    """Add the name of a case to whatever is raised within it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {', '.join(map(str, name))}")
        raise


def each(cases: Iterable[tuple[str, Case]], check: Callable[[Case], object]) -> None:
    """Check every case, also those behind one that fails.

    Raises:
        AssertionError: names the cases that failed and what each raised.
    """
    failed: list[tuple[str, BaseException]] = []
    for name, one in cases:
        try:
            check(one)
        except (Exception, pytest.fail.Exception) as error:
            failed.append((name, error))
    if failed:
        said = [f"{name}: {type(error).__name__}: {error}" for name, error in failed]
        raise AssertionError("\n".join(said)) from failed[0][1]
