"""What layouts have in common before a module is built: words that exist, sizes that are usual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.numerics import TASKS
from ..files.reading import CheckpointError

HEAD = 64  # the usual width of one head
FEW = 8  # the usual number of heads where no head is that wide


def refuse_unknown(overrides: Iterable[str], words: Sequence[str]) -> None:
    """Refuse overrides that a layout has no word for.

    Raises:
        CheckpointError: names the first of them, and the words there are.
    """
    for word in overrides:
        if word not in words:
            raise CheckpointError(
                f"There is no word {word!r} to override; known are {', '.join(words)}."
            )


def usual_heads(width: int) -> int:
    """How many heads a model of this width usually has: 64 numbers each, or else 8 or fewer."""
    if width % HEAD == 0:
        return width // HEAD
    return next(heads for heads in range(FEW, 0, -1) if width % heads == 0)


def checked_task(task: Any) -> str:
    """Return a task that a user named.

    Raises:
        CheckpointError: another word; names those there are.
    """
    if task not in TASKS:
        raise CheckpointError(f"There is no task {task!r}; choose one of {', '.join(TASKS)}.")
    return str(task)
