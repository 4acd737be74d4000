"""What a checkpoint is refused with. Needs no torch."""

from __future__ import annotations

import re
import shlex

from ...core.errors import visible

LONG = re.compile(r"(\S{80})\S{220,}")  # a word that a file wrote into its own error

#: What the interpreter says of its own insides, which no reader of a page can mend.
INSIDES = re.compile(
    r"argument|attribute|codec can't|<class|\bobject\b|subscript|unpack|literal|indices"
    r"|instances of|range|unhashable"
)


PLAIN_NAME = re.compile(r"[\w.][\w./ -]{0,99}")


class CheckpointError(ValueError):
    """A checkpoint that cannot be opened; the message says what came and what to do."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(_tidy(x) if isinstance(x, str) else x for x in args))


def _tidy(text: str) -> str:
    """A sentence whose words from a file are not endless, and can be seen."""
    return "\n".join(map(visible, LONG.sub(r"\1...", text).split("\n")))


def shell_name(name: str) -> str:
    """Return a file's name as a shell takes it, or FILE for one with odd characters."""
    return shlex.quote(name) if PLAIN_NAME.fullmatch(name) else "FILE"


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """A checkpoint, or a file it needs, that is not there."""


def reason(error: BaseException, most: int = 120) -> str:
    """Why a library could not read a file, on one line; nothing of the interpreter's insides."""
    text = " ".join(str(error).split())[:most].rstrip(".: ")
    return text if text and not INSIDES.search(text) else "what stands in it is of an odd kind"
