"""Sentences as rows of chips that light up together with the pictures."""

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


def chip_sides(trace: Trace, vectors: bool = False) -> list[tuple[str, Tokens]]:
    """The sentences of a run by name, in the order in which they are read.

    Args:
        trace: the run.
        vectors: whether its source is vectors and no text.
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
    """A sentence as rows and columns of the opened head; hidden words are struck out.

    Args:
        trace: the run that the head is of.
        side, tokens: of `chip_sides`.
        place: the opened head.
        found: its cells.
        changes: what hides words.
        chosen: the model's own row that is chosen.
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
    """The model's row that a token stands at; None where the map has no row for it.

    In the decoder a row bears the word that it produces, so a target token stands at the row
    before its own input, and the start token at none.
    """
    if block == "encoder":
        return token if side != "target" else None
    return token - 1 if side == "target" and token > 0 else None


def chip_lights(trace: Trace, side: str, token: int) -> tuple[str | None, str | None]:
    """What lights up with a token: the row that it stands at, or that produces it; its column."""
    sentence = "target" if side == "target" else "source"
    alone = trace.maps == ("decoder",)
    if produced_by_row(trace) is None or not (alone or side == "target"):
        return spot(sentence, token), spot(sentence, token)
    return spot("produced", token - 1) if token else None, spot(sentence, token)


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
