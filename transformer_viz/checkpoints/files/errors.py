"""What a checkpoint is refused with. Needs no torch."""

from __future__ import annotations

import re
import shlex

from ...core.errors import is_disk_full, visible

LONG = re.compile(r"(\S{80})\S{220,}")  # a word that a file wrote into its own error

#: What the interpreter says of its own insides, which no reader of a page can mend.
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
    """A checkpoint that cannot be opened; the message says what came and what to do."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(_tidy(x) if isinstance(x, str) else x for x in args))


def _tidy(text: str) -> str:
    """A sentence whose words from a file are not endless, and can be seen."""
    return "\n".join(map(visible, LONG.sub(r"\1...", text).split("\n")))


def require_disk(error: BaseException) -> None:
    """Refuse in the disk's name what it took no more of; any other error passes.

    Raises:
        CheckpointError: the disk is full; says that it is not the file's fault.
    """
    if is_disk_full(error):
        raise CheckpointError(DISK_FULL) from error


def shell_name(name: str) -> str:
    """Return a file's name as a shell takes it, or FILE for one with odd characters."""
    return shlex.quote(name) if PLAIN_NAME.fullmatch(name) else "FILE"


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """A checkpoint, or a file it needs, that is not there."""


def reason(error: BaseException, most: int = 120) -> str:
    """Why a library could not read a file, on one line; nothing of the interpreter's insides."""
    text = " ".join(str(error).split())[:most].rstrip(".: ")
    return text if text and not INSIDES.search(text) else "what stands in it is of an odd kind"
