"""Files written by a confined process, opened without trust."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from ..checkpoints.files.errors import CheckpointError
from ..checkpoints.files.reading import MAX_FILE

#: Folder with names of open files; on Linux, and on macOS and the BSDs.
HANDLES = ("/proc/self/fd", "/dev/fd")
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would block


@contextmanager
def received(folder: Path, name: str) -> Iterator[Path]:
    """Yield a path of the checked file itself: a regular file with one name, owned by this user.

    No link is followed below ``folder``, nor may ``folder`` be one. A later file of the same name
    is not read (if open files have names: not on Windows).

    Args:
        folder: Folder where the process may write.
        name: The file in it, or in a subfolder.

    Raises:
        CheckpointError: There is no such file.
    """
    held: list[int] = []
    try:
        try:
            place = _opened(folder, name, held)
        except OSError as error:
            raise CheckpointError(
                f"The process that read the checkpoint left no sound file {PurePath(name).name} "
                f"({error.strerror or error}); open it again."
            ) from error
        yield place
    finally:
        for handle in held:
            os.close(handle)


def is_there(folder: Path, name: str) -> bool:
    """Return True if a process wrote anything of this name, including a dangling link."""
    return os.path.lexists(folder / name)


def _opened(folder: Path, name: str, held: list[int]) -> Path:
    if os.open not in os.supports_dir_fd:
        _check(os.lstat(folder / name))
        return folder / name
    *inner, last = PurePath(name).parts
    where: int | None = None
    for part in (str(folder), *inner):
        where = os.open(part, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=where)
        held.append(where)
    held.append(os.open(last, os.O_RDONLY | NO_LINK | NO_WAIT, dir_fd=where))
    _check(os.fstat(held[-1]))
    with suppress(StopIteration):
        return next(Path(one, str(held[-1])) for one in HANDLES if os.path.isdir(one))
    return folder / name


def _check(found: os.stat_result) -> None:
    """Raise if a file is not a regular file of this user.

    Raises:
        OSError: The message gives the reason.
    """
    own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    for sound, said in (
        (stat.S_ISREG(found.st_mode), "it is no regular file"),
        (own, "it belongs to somebody else"),
        (found.st_nlink == 1, "it has several names"),
        (found.st_size <= MAX_FILE, f"it has {found.st_size:,} bytes"),
    ):
        if not sound:
            raise OSError(said)
