"""Undo and redo history of the edits."""

from __future__ import annotations

from dataclasses import dataclass

MAX_UNDO_STEPS = 100  # undo steps of a session


@dataclass(frozen=True)
class History:
    """Earlier edits, oldest first, and undone edits, the next to redo last."""

    past: tuple[str, ...] = ()
    future: tuple[str, ...] = ()

    def did(self, before: str) -> History:
        """Return the history after a change away from ``before``; nothing can be redone then."""
        return History((*self.past, before)[-MAX_UNDO_STEPS:])

    def undo(self, now: str) -> tuple[History, str]:
        """Return history and edits one step back; unchanged if there is none."""
        if not self.past:
            return self, now
        return History(self.past[:-1], (*self.future, now)), self.past[-1]

    def redo(self, now: str) -> tuple[History, str]:
        """Return history and edits one step forward; unchanged if there is none."""
        if not self.future:
            return self, now
        return History((*self.past, now), self.future[:-1]), self.future[-1]
