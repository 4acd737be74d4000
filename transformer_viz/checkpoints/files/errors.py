"""Errors for checkpoints that cannot be opened. Needs no torch."""

from __future__ import annotations

import re
import shlex

from ...core.errors import is_disk_full, visible

LONG = re.compile(r"(\S{80})\S{220,}")  # a long word from a file in its own error

#: Messages about the interpreter's internals, which do not help a user.
INSIDES = re.compile(
    r"argument|attribute|codec can't|<class|\bobject\b|subscript|unpack|literal|indices"
    r"|instances of|range|unhashable"
)


DISK_FULL = (
    "The disk of the machine that opens this is full; the file is not at fault. Whoever runs it "
    "can make room, or name another folder for temporary files by the variable TMPDIR."
)
PLAIN_NAME = re.compile(r"[\w.][\w./ -]{0,99}")


class CheckpointError(ValueError):
    """Checkpoint that cannot be opened; the message states what came and what to do."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(_tidy(x) if isinstance(x, str) else x for x in args))


def _tidy(text: str) -> str:
    """Return a sentence with words from a file shortened and made visible."""
    return "\n".join(map(visible, LONG.sub(r"\1...", text).split("\n")))


def require_disk(error: BaseException) -> None:
    """Raise a disk error if the disk is full; ignore any other error.

    Raises:
        CheckpointError: The disk is full; states that it is not the file's fault.
    """
    if is_disk_full(error):
        raise CheckpointError(DISK_FULL) from error


def shell_name(name: str) -> str:
    """Return a file's name quoted for a shell, or FILE for one with odd characters."""
    return shlex.quote(name) if PLAIN_NAME.fullmatch(name) else "FILE"


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """Missing checkpoint, or missing file of a checkpoint."""


def reason(error: BaseException, most: int = 120) -> str:
    """Return a library's reason for a read error on one line, without interpreter internals."""
    text = " ".join(str(error).split())[:most].rstrip(".: ")
    return text if text and not INSIDES.search(text) else "what stands in it is of an odd kind"
