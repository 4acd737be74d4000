"""A picture made of HTML, for what words and short bars show better than a chart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """Ready HTML that needs no script and no network; a notebook shows it by itself.

    Whoever makes one escapes every token and name that goes into it.
    """

    html: str
    caption: str = ""

    def _repr_html_(self) -> str:
        return self.html
