"""Sentences as rows of chips that are highlighted together with the pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.editing.edit_controls import Place, hidden
from ..core.interventions import Intervention
from ..core.sites import called
from ..core.trace import Trace
from ..core.trace_parts import Tokens
from ..i18n import mark, say
from ..metrics.attention.map_cells import Cells
from ..metrics.attention.word_merging import produced_by_row
from .js_texts import browser_words
from .ruler import Ruler

LONE_SENTENCE_NAMES = {
    "text": mark("text"),
    "vectors": mark("vectors"),
}  # names of a single sentence


@dataclass(frozen=True)
class Chip:
    """Clickable token.

    Attributes:
        text: Label.
        row, column: Position in the open picture, or None.
        on: True for the chosen token.
        gone: True if an edit hides it.
        mark: True for a start or end token.
        lights: Tokens that are highlighted with it, as rows and as columns of any picture (see
            `spot`).
    """

    text: str
    row: int | None = None
    column: int | None = None
    on: bool = False
    gone: bool = False
    mark: bool = False
    lights: tuple[str | None, str | None] = (None, None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for the browser; a chip without a position cannot be chosen."""
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
    """Sentence with its name ("source") and its chips."""

    name: str
    chips: Sequence[Chip]


@dataclass(frozen=True)
class Picked:
    """Clicked chip: its sentence, its index there, and its position in the picture."""

    side: str
    token: int
    row: int | None
    column: int | None


def spot(sentence: str, *tokens: int) -> str:
    """Return the browser's name of a sentence's tokens (``source``, ``target``, ``produced``)."""
    return f"{sentence}:{','.join(map(str, tokens))}"


def tokens_data(
    rows: Sequence[ChipRow],
    *,
    dark: bool,
    chart: str | None = None,
    sides: tuple[Ruler | None, Ruler | None] = (None, None),
) -> dict[str, Any]:
    """Return the data of ``tokens.js``.

    Args:
        rows: A sentence each.
        dark: Background of the rest of the page; the browser reports a mismatch.
        chart: Key of a Plotly chart that is highlighted too, if any.
        sides: Rulers of that chart's rows and columns.
    """
    drawn = [
        {"name": row.name, "title": _title(row.name), "chips": [c.to_dict() for c in row.chips]}
        for row in rows
    ]
    down, across = (side and side.to_dict() for side in sides)
    plotly = None if chart is None else {"key": chart, "rows": down, "columns": across}
    header = {"part": "tokens", "rows": drawn, "dark": dark, "chart": plotly}
    return header | browser_words()


def chip_sides(trace: Trace, vectors: bool = False) -> list[tuple[str, Tokens]]:
    """Return the sentences of a run by name, in reading order.

    Args:
        trace: The run.
        vectors: True if its source is vectors instead of text.
    """
    if trace.target is None:
        return [("vectors" if vectors else "text", trace.source)]
    return [("source", trace.source), ("target", trace.target)]


def map_chips(
    trace: Trace,
    side: str,
    tokens: Tokens,
    place: Place,
    found: Cells,
    changes: Intervention,
    chosen: int | None,
) -> list[Chip]:
    """Return a sentence as rows and columns of the open head; hidden tokens are struck out.

    Args:
        trace: The run of the head.
        side, tokens: A result of `chip_sides`.
        place: The open head.
        found: Its cells.
        changes: Edits that may hide tokens.
        chosen: The chosen row of the model.
    """
    alone = trace.target is None
    looked_at = alone or side == ("target" if place.map_name == "decoder" else "source")
    gone = hidden(changes, place) if looked_at else ()
    whose = "target" if trace.maps == ("decoder",) else side
    own = [row_token(place.map_name, whose, token) for token in range(len(tokens))]
    return [
        Chip(
            text,
            row=found.row_of(own[token]),
            column=found.column_of(token) if looked_at else None,
            on=own[token] is not None and own[token] == chosen,
            gone=token in gone,
            mark=tokens.special[token],
            lights=chip_lights(trace, side, token),
        )
        for token, text in enumerate(tokens.labels)
    ]


def row_token(block: str, side: str, token: int) -> int | None:
    """Return the model's row of a token; None if the map has no row for it.

    A decoder's row is labelled with its prediction, so a target token belongs to the row before its
    input, and the start token to none.
    """
    if block == "encoder":
        return token if side != "target" else None
    return token - 1 if side == "target" and token > 0 else None


def chip_lights(trace: Trace, side: str, token: int) -> tuple[str | None, str | None]:
    """Return the row (reading or predicting) and the column highlighted with a token."""
    sentence = "target" if side == "target" else "source"
    alone = trace.maps == ("decoder",)
    if produced_by_row(trace) is None or not (alone or side == "target"):
        return spot(sentence, token), spot(sentence, token)
    return spot("produced", token - 1) if token else None, spot(sentence, token)


def _title(name: str) -> str:
    return say(LONE_SENTENCE_NAMES[name]) if name in LONE_SENTENCE_NAMES else called(name)


def picked(rows: Sequence[ChipRow], value: object) -> Picked | None:
    """Return the chip of a click in the browser; None for an invalid one.

    Args:
        rows: The rows as drawn.
        value: Value from the browser, a mapping with ``side`` and ``token``; it may be anything.
    """
    if not isinstance(value, Mapping):
        return None
    side, token = value.get("side"), value.get("token")
    chips = next((row.chips for row in rows if row.name == side), ())
    if not isinstance(side, str) or not isinstance(token, int) or not 0 <= token < len(chips):
        return None
    return Picked(side, token, chips[token].row, chips[token].column)
