"""What a checkpoint is refused with. Needs no torch."""

from __future__ import annotations


class CheckpointError(ValueError):
    """A checkpoint that cannot be opened; the message says what came and what to do."""


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """A checkpoint, or a file it needs, that is not there."""
