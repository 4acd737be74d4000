"""Undo and redo: the changes as they were, and those that were taken back."""

from __future__ import annotations

from dataclasses import dataclass

MAX_UNDO_STEPS = 100  # steps that a visit remembers


@dataclass(frozen=True)
class History:
    """Edits before the present ones, oldest first, and undone ones, the next to redo last."""

    past: tuple[str, ...] = ()
    future: tuple[str, ...] = ()

    def did(self, before: str) -> History:
        """After a change away from ``before``: what had been undone is gone."""
        return History((*self.past, before)[-MAX_UNDO_STEPS:])

    def undo(self, now: str) -> tuple[History, str]:
        """The history and the edits one step back; the same where nothing was done."""
        if not self.past:
            return self, now
        return History(self.past[:-1], (*self.future, now)), self.past[-1]

    def redo(self, now: str) -> tuple[History, str]:
        """The history and the edits one step forward; the same where nothing was undone."""
        if not self.future:
            return self, now
        return History((*self.past, now), self.future[:-1]), self.future[-1]
