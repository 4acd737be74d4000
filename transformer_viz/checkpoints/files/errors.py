"""What a checkpoint is refused with. Needs no torch."""

from __future__ import annotations

import re

LONG = re.compile(r"(\S{80})\S{220,}")  # a word that a file wrote into its own error


class CheckpointError(ValueError):
    """A checkpoint that cannot be opened; the message says what came and what to do."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(LONG.sub(r"\1...", x) if isinstance(x, str) else x for x in args))


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """A checkpoint, or a file it needs, that is not there."""
