"""File names that are not UTF-8, for libraries that accept no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import whole

OPEN_FILES = "/proc/self/fd"  # Linux lists the open files of a process here, by number


@contextmanager
def utf8_name(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a name under which a file can be opened: its own if it is UTF-8.

    Old archives and disks contain names in other encodings, such as Latin-1.

    Raises:
        OSError: The file does not exist.
    """
    name = os.fspath(path)
    if whole(name) or not os.path.isdir(OPEN_FILES):
        yield name
        return
    with open(path, "rb") as file:
        yield f"{OPEN_FILES}/{file.fileno()}"
