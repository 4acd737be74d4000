"""Figure made of HTML, for text and short bars."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.guesses import Record, guess_html


@dataclass(frozen=True)
class Picture:
    """Ready HTML that needs no script and no network; a notebook renders it.

    All tokens and names in it must be escaped by the caller. ``note`` is HTML below the picture
    where it stands alone: the values that were guessed for the model.
    """

    html: str
    caption: str = ""
    note: str = ""

    def _repr_html_(self) -> str:
        return self.html + self.note


def noted(html: str, caption: str, *runs: Record) -> Picture:
    """Return a picture with the mark of the values guessed for these runs' models."""
    return Picture(html, caption, guess_html(*runs))
