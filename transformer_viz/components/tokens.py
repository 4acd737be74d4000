"""Sentences as rows of chips that light up together with the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.sites import called
from ..i18n import mark, say
from .js_texts import browser_words
from .ruler import Ruler

LONE_SENTENCE_NAMES = {
    "text": mark("text"),
    "vectors": mark("vectors"),
}  # of a sentence that stands alone


@dataclass(frozen=True)
class Chip:
    """One token to point at.

    ``row`` and ``column`` are where it stands in the opened picture, if it does; ``lights`` are
    the tokens that light up with it as rows and as columns of any picture (see `spot`). ``mark``:
    a start or end mark; ``gone``: hidden by an edit; ``on``: the chosen one.
    """

    text: str
    row: int | None = None
    column: int | None = None
    on: bool = False
    gone: bool = False
    mark: bool = False
    lights: tuple[str | None, str | None] = (None, None)

    def to_dict(self) -> dict[str, Any]:
        """What the browser needs of it; one that has no place in the picture cannot be chosen."""
        return {
            "text": self.text,
            "row": self.lights[0],
            "column": self.lights[1],
            "on": self.on,
            "gone": self.gone,
            "mark": self.mark,
            "dead": self.row is None and self.column is None,
        }


@dataclass(frozen=True)
class ChipRow:
    """A sentence: its name ("source") and its chips."""

    name: str
    chips: Sequence[Chip]


@dataclass(frozen=True)
class Picked:
    """A chip that was clicked: its sentence, its number there, its place in the picture."""

    side: str
    token: int
    row: int | None
    column: int | None


def spot(sentence: str, *tokens: int) -> str:
    """Tokens of a sentence (``source``, ``target`` or ``produced``) as the browser names them."""
    return f"{sentence}:{','.join(map(str, tokens))}"


def tokens_data(
    rows: Sequence[ChipRow],
    *,
    dark: bool,
    chart: str | None = None,
    sides: tuple[Ruler | None, Ruler | None] = (None, None),
) -> dict[str, Any]:
    """What ``tokens.js`` draws.

    Args:
        rows: one sentence each.
        dark: the background that the rest of the page was drawn for; the browser tells when it
            turns out to be another.
        chart: the key of a Plotly chart that lights up too, if there is one.
        sides: whose tokens stand along that chart's rows and columns.
    """
    drawn = [
        {"name": row.name, "title": _title(row.name), "chips": [c.to_dict() for c in row.chips]}
        for row in rows
    ]
    down, across = (side and side.to_dict() for side in sides)
    plotly = None if chart is None else {"key": chart, "rows": down, "columns": across}
    header = {"part": "tokens", "rows": drawn, "dark": dark, "chart": plotly}
    return header | browser_words()


def _title(name: str) -> str:
    return say(LONE_SENTENCE_NAMES[name]) if name in LONE_SENTENCE_NAMES else called(name)


def picked(rows: Sequence[ChipRow], value: object) -> Picked | None:
    """The chip that a click in the browser meant; None where it means nothing here.

    Args:
        rows: as they were drawn.
        value: what came back, a mapping with ``side`` and ``token``; anything may come.
    """
    if not isinstance(value, Mapping):
        return None
    side, token = value.get("side"), value.get("token")
    chips = next((row.chips for row in rows if row.name == side), ())
    if not isinstance(side, str) or not isinstance(token, int) or not 0 <= token < len(chips):
        return None
    return Picked(side, token, chips[token].row, chips[token].column)
