"""Names of files that are no UTF-8, for libraries that take no others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import whole

OPEN_FILES = "/proc/self/fd"  # where Linux names the open files of a process by their numbers


@contextmanager
def utf8_name(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give a name under which a file can be opened; its own, where that is UTF-8.

    Old archives and disks leave names in other encodings, as Latin-1.

    Raises:
        OSError: no such file.
    """
    name = os.fspath(path)
    if whole(name) or not os.path.isdir(OPEN_FILES):
        yield name
        return
    with open(path, "rb") as file:
        yield f"{OPEN_FILES}/{file.fileno()}"
