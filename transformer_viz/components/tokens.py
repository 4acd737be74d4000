"""Sentences as rows of chips that light up together with the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Chip:
    """One token to point at.

    ``row`` and ``column`` are where it stands in the chart, if it does. ``mark``: a start or
    end mark; ``gone``: hidden by an edit; ``on``: the chosen one.
    """

    text: str
    row: int | None = None
    column: int | None = None
    on: bool = False
    gone: bool = False
    mark: bool = False


@dataclass(frozen=True)
class ChipRow:
    """A sentence: its name ("source") and its chips."""

    name: str
    chips: Sequence[Chip]


@dataclass(frozen=True)
class Picked:
    """A chip that was clicked: its sentence, its number there, its place in the chart."""

    side: str
    token: int
    row: int | None
    column: int | None


def tokens_data(rows: Sequence[ChipRow], *, dark: bool, chart: str) -> dict[str, Any]:
    """What ``tokens.js`` draws.

    Args:
        rows: one sentence each.
        dark: the background that the rest of the page was drawn for; the browser tells when it
            turns out to be another.
        chart: the key of the Plotly chart whose rows and columns are lit.
    """
    drawn = [{"name": row.name, "chips": [asdict(chip) for chip in row.chips]} for row in rows]
    return {"rows": drawn, "dark": dark, "chart": chart}


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
