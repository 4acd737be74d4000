"""Checks shared by layouts before a module is built: known options, usual sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.numerics import TASKS
from ..files.reading import CheckpointError

HEAD = 64  # usual width of one head
FEW = 8  # usual number of heads if no head can be that wide


def refuse_unknown(overrides: Iterable[str], words: Sequence[str]) -> None:
    """Refuse overrides that are no options of a layout.

    Raises:
        CheckpointError: Names the first of them, and the known options.
    """
    for word in overrides:
        if word not in words:
            raise CheckpointError(
                f"There is no word {word!r} to override; known are {', '.join(words)}."
            )


def usual_heads(width: int) -> int:
    """Return the usual number of heads for this width: 64 numbers each, or else 8 or fewer."""
    if width % HEAD == 0:
        return width // HEAD
    return next(heads for heads in range(FEW, 0, -1) if width % heads == 0)


def checked_task(task: Any) -> str:
    """Return the task that a user named.

    Raises:
        CheckpointError: Unknown task; the message lists the known ones.
    """
    if task not in TASKS:
        raise CheckpointError(f"There is no task {task!r}; choose one of {', '.join(TASKS)}.")
    return str(task)
