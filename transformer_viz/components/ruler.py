"""Tokens along the sides of a picture, by which pictures are highlighted together."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from ..core.sites import MAPS
from ..core.trace import Trace
from ..metrics.attention.map_cells import Cells
from ..metrics.attention.thumbnails import sentences
from ..metrics.attention.word_merging import produced_by_row


@dataclass(frozen=True)
class Ruler:
    """Labels along one side of a picture, with the model's tokens of each.

    Attributes:
        sentence: ``source``, ``target``, or ``produced`` (the rows of a decoder: row t reads token
            t and predicts the next one).
        labels: Label of each row or column.
        groups: Tokens in each row or column.
    """

    sentence: str
    labels: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a component's header."""
        return dict(vars(self))


def rulers(trace: Trace, block: str, cells: Cells | None = None) -> tuple[Ruler, Ruler]:
    """Return the sides of a map: rows and columns, grouped as a head's cells, or by token."""
    rows, columns = row_sentence(trace, block), _column_sentence(trace, block)
    if cells is not None:
        return (
            Ruler(rows, cells.rows.labels, cells.members),
            Ruler(columns, cells.columns.labels, cells.parts),
        )
    queries, keys = sentences(trace, block)
    said = produced_by_row(trace)
    produced = said.labels if rows == "produced" and said else queries.labels
    return Ruler(rows, produced, _single(produced)), Ruler(columns, keys.labels, _single(keys))


def _column_sentence(trace: Trace, block: str) -> str:
    """Return the sentence of a map's columns."""
    kept = next((one for one in trace.attentions if one.site.map == block), None)
    if kept is not None:
        return kept.key
    return "target" if block == "decoder" and trace.target is not None else "source"


def row_sentence(trace: Trace, block: str) -> str:
    """Return the sentence of a map's rows; a decoder's rows are its predictions, if known."""
    if MAPS[block][0] == "encoder":
        return "source"
    if produced_by_row(trace) is not None:
        return "produced"
    return "source" if trace.target is None else "target"


def _single(tokens: Sized) -> tuple[tuple[int, ...], ...]:
    return tuple((token,) for token in range(len(tokens)))
