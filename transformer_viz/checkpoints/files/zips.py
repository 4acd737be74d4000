"""Checks of a zip file before unpacking: number of members, and how they are stored."""

from __future__ import annotations

import struct
import zipfile
from contextlib import suppress
from pathlib import Path

from .errors import CheckpointError, reason

MAX_DIRECTORY = 16 * 2**20  # bytes of a zip's table of contents: some 150,000 members
_END, _LOCATOR, _END_64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
UTF_8 = 0x800  # flag of a member with a UTF-8 name
_SHORTEST = 22  # bytes of the end record
_TAIL = _SHORTEST + 65535  # and of the longest comment behind it


def members(path: Path) -> list[zipfile.ZipInfo]:
    """Return the members of a zip file; its table of contents must have a sensible size.

    Raises:
        CheckpointError: The zip is damaged, or its table of contents is too long or misplaced.
    """
    size, placed = _directory(path)
    if size > MAX_DIRECTORY:
        raise CheckpointError(
            f"{path.name} has a table of contents of {size:,} bytes, and {MAX_DIRECTORY:,} are the "
            "most; that is no checkpoint."
        )
    if not placed:
        raise CheckpointError(
            f"{path.name} is a damaged zip file: its table of contents is not where it says. Copy "
            "or save it again."
        )
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except UnicodeDecodeError as error:  # of its table of contents, which holds the names
        raise CheckpointError(
            f"{path.name} names a file in letters that are not UTF-8, and says that they are. "
            "Rename the file, or pack it with another program."
        ) from error
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise damaged(path, error) from error


def spelled(member: zipfile.ZipInfo) -> str:
    """Return the name of a member, in the encoding that was most likely used.

    Without the UTF-8 flag a name is in code page 437 (APPNOTE.TXT, appendix D). In practice it is
    often UTF-8 or Latin-1.
    """
    if member.flag_bits & UTF_8 or member.filename.isascii():
        return member.filename
    try:
        raw = member.filename.encode("cp437")
    except UnicodeEncodeError:
        return member.filename
    for code in ("utf-8", "cp437", "latin-1"):
        with suppress(UnicodeDecodeError):
            if (name := raw.decode(code)).isprintable():
                return name
    return member.filename


def damaged(path: Path, error: Exception) -> CheckpointError:
    """Return the error for a damaged zip file."""
    plain = error.strerror if isinstance(error, OSError) else ""  # without our paths
    why = plain or reason(error)
    return CheckpointError(f"{path.name} is a damaged zip file: {why}. Copy or save it again.")


def _directory(path: Path) -> tuple[int, bool]:
    """Return the stated size of the table of contents, and True if it is where it should be.

    If it is not, readers disagree on which table is meant, so the checked one may not be the one
    read. Returns ``(0, True)`` if there is no end record.
    """
    with path.open("rb") as file:
        start = max(0, file.seek(0, 2) - _TAIL)
        file.seek(start)
        tail = file.read()
        at = tail.rfind(_END, 0, max(0, len(tail) - _SHORTEST + len(_END)))
        if at < 0:
            return 0, True
        size, offset = struct.unpack_from("<II", tail, at + 12)
        end = start + at
        if at >= 20 and tail.startswith(_LOCATOR, at - 20):
            (where,) = struct.unpack_from("<Q", tail, at - 20 + 8)
            end -= 20 + 56
            if where != end:
                return size, False
            file.seek(where)
            record = file.read(56)
            if len(record) < 56 or not record.startswith(_END_64):
                return size, False
            size, offset = struct.unpack_from("<QQ", record, 40)
        return size, offset + size == end
