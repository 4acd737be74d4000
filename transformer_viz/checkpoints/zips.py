"""Zip files looked at before anything is unpacked: how many members, and how they are stored."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from .errors import CheckpointError

MAX_DIRECTORY = 16 * 2**20  # bytes of a zip's table of contents: some 150,000 members
_END, _LOCATOR, _END_64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
_TAIL = 22 + 65535  # bytes: the end record and the longest comment behind it


def members(path: Path) -> list[zipfile.ZipInfo]:
    """The table of contents of a zip file, which is read only when it is of a sensible size.

    Raises:
        CheckpointError: damaged, or with an endless table of contents.
    """
    size = _directory_size(path)
    if size > MAX_DIRECTORY:
        raise CheckpointError(
            f"{path.name} has a table of contents of {size:,} bytes, and {MAX_DIRECTORY:,} are the "
            "most; that is no checkpoint."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> CheckpointError:
    """The sentence about a zip file that does not hold what it says."""
    plain = error.strerror if isinstance(error, OSError) else str(error)  # without our paths
    reason = (plain or "").partition("\n")[0][:120] or type(error).__name__
    return CheckpointError(f"{path.name} is a damaged zip file: {reason}. Copy or save it again.")


def _directory_size(path: Path) -> int:
    """How long the table of contents says it is; 0 where no end record is found."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, 2) - _TAIL)
        file.seek(start)
        tail = file.read()
        at = tail.rfind(_END)
        if at < 0 or len(tail) < at + 22:
            return 0
        (size,) = struct.unpack_from("<I", tail, at + 12)
        if at < 20 or not tail.startswith(_LOCATOR, at - 20):
            return int(size)
        (where,) = struct.unpack_from("<Q", tail, at - 20 + 8)
        try:
            file.seek(where)
        except OSError:
            return int(size)
        record = file.read(56)
        if len(record) < 56 or not record.startswith(_END_64):
            return int(size)
        return max(int(size) % 0xFFFFFFFF, struct.unpack_from("<Q", record, 40)[0])
