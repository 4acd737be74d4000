"""A name for what fails inside a loop over cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*name: object) -> Iterator[None]:
    """Add the name of a case to whatever is raised within it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {', '.join(map(str, name))}")
        raise
