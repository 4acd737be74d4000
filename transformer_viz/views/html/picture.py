"""A picture made of HTML, for what words and short bars show better than a chart."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.guesses import Record, guess_html


@dataclass(frozen=True)
class Picture:
    """Ready HTML that needs no script and no network; a notebook shows it by itself.

    Whoever makes one escapes every token and name that goes into it. ``note`` is HTML that stands
    below the picture where it stands alone: what was guessed of the model.
    """

    html: str
    caption: str = ""
    note: str = ""

    def _repr_html_(self) -> str:
        return self.html + self.note


def noted(html: str, caption: str, *runs: Record) -> Picture:
    """Return a picture with the mark of what was guessed of these runs' models."""
    return Picture(html, caption, guess_html(*runs))
