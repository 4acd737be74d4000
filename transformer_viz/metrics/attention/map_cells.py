"""Cells of a head's map: weights with their token labels, and the mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.apply_edits import HeadPlan
from ...core.interventions import Intervention, Temperature
from ...core.numerics import visible_cells
from ...core.sites import MAPS
from ...core.tiles import LONG, Tiles
from ...core.trace import Trace
from ...core.trace_parts import Attention
from ...i18n import say
from .word_merging import (
    Axis,
    Regrouped,
    axis,
    merge_words,
    produced_axis,
    produced_by_row,
    without_special,
)


@dataclass(frozen=True, eq=False)
class Cells:
    """Map of one head, ready to draw.

    Attributes:
        weights: ``[query, key]``.
        masked: ``[query, key]``.
        rows: Labels of the rows.
        columns: Labels of the columns.
        members: Model rows merged in each row.
        parts: Model columns merged in each column.
        note: Sentence on the changes made to rows; empty if unchanged.
    """

    weights: np.ndarray
    masked: np.ndarray
    rows: Axis
    columns: Axis
    members: tuple[tuple[int, ...], ...]
    parts: tuple[tuple[int, ...], ...]
    note: str = ""

    @property
    def blind(self) -> tuple[str, ...]:
        """Labels of rows that are masked completely."""
        return tuple(self.rows.labels[row] for row in np.flatnonzero(self.masked.all(axis=1)))

    def row_of(self, token: int | None) -> int | None:
        """Return the row that contains a model row, if shown."""
        return _place(self.members, token)

    def column_of(self, token: int | None) -> int | None:
        """Return the column that contains a token, if shown."""
        return _place(self.parts, token)


def _place(groups: tuple[tuple[int, ...], ...], token: int | None) -> int | None:
    return next((place for place, tokens in enumerate(groups) if token in tokens), None)


def cells(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    words: bool = False,
    special: bool = True,
) -> Cells:
    """Return the cells of one head.

    ``words`` merges pieces; ``special`` False leaves special tokens out.

    Raises:
        LookupError: The trace lacks the map, layer or head.
    """
    attention = trace.block(block, layer)
    if not 0 <= head < len(attention.weights):
        raise LookupError(
            f"{block!r} L{layer} has heads 0 to {len(attention.weights) - 1}; got {head}."
        )
    rows, columns = axes(trace, attention)
    seen = visible(attention, head, trace.intervention).astype(np.float64)
    weights = attention.weights[head]
    drawn, shown = (_regroup(part, rows, columns, words, special) for part in (weights, seen))
    members, parts = (_members(side, words, special) for side in (rows, columns))
    masked = shown.weights <= 0
    return Cells(drawn.weights, masked, drawn.queries, drawn.keys, members, parts, drawn.note)


def is_tiled(trace: Trace) -> bool:
    """Return True if a run has tiles instead of matrices, and is too long for those."""
    return any(max(one.shape) > LONG for one in trace.tiles)


def refuse_difference(before: Trace | None) -> None:
    """Raise if a difference of pooled cells is requested.

    Raises:
        ValueError: There is another run.
    """
    if before is not None:
        raise ValueError(
            f"The change between two runs is drawn of texts of up to {LONG:,} tokens; draw each "
            "run by itself."
        )


def refuse_lines(trace: Trace) -> None:
    """Raise if a text has too many words for lines.

    Raises:
        ValueError: The text is too long for a matrix.
    """
    if is_tiled(trace):
        raise ValueError(
            f"Lines are drawn of texts of up to {LONG:,} tokens; this one has "
            f"{len(trace.source):,}. Draw the map instead."
        )


def part_cells(
    trace: Trace, block: str, layer: int, head: int, rows: slice, columns: slice
) -> Cells:
    """Return some rows and columns of one head, token by token, for a text of any length.

    Raises:
        LookupError, ValueError: See `Trace.tile`.
    """
    place = block, layer, head
    weights = trace.tile(*place, rows, columns)
    _, hidden = trace.pooled(*place, 1, rows, columns)
    shape = trace.map_shape(block, layer)
    spans = [range(*side.indices(size)) for side, size in zip((rows, columns), shape, strict=True)]
    down, across = (
        _picked(side, [(n,) for n in span])
        for side, span in zip(_tiled_axes(trace, block, layer), spans, strict=True)
    )
    members, parts = (tuple((n,) for n in span) for span in spans)
    return Cells(weights, hidden, down, across, members, parts)


def coarse_cells(trace: Trace, block: str, layer: int, head: int, most: int) -> Cells:
    """Return one whole head in at most ``most`` x ``most`` cells, each the maximum of its weights.

    Raises:
        LookupError, ValueError: See `Trace.pooled`.
    """
    shape = trace.map_shape(block, layer)
    step = -(-max(shape) // most)
    weights, hidden = trace.pooled(block, layer, head, step)
    members, parts = (
        tuple(tuple(range(n, min(n + step, size))) for n in range(0, size, step)) for size in shape
    )
    rows, columns = _tiled_axes(trace, block, layer)
    down, across = _picked(rows, members), _picked(columns, parts)
    note = say(
        "Pooled: a cell is the largest of up to {down} × {across} weights.", down=step, across=step
    )
    return Cells(weights, hidden, down, across, members, parts, note if step > 1 else "")


def _tiled_axes(trace: Trace, block: str, layer: int) -> tuple[Axis, Axis]:
    """Return the labels of rows and columns, without building a matrix."""
    kept: list[Attention | Tiles] = [*trace.attentions, *trace.tiles]
    return axes(
        trace, next(one for one in kept if (one.site.map, one.site.layer) == (block, layer))
    )


def _picked(side: Axis, groups: Sequence[tuple[int, ...]]) -> Axis:
    """Return groups of tokens, each with the label of its first."""
    labels = (f"{side.labels[one[0]]} …" if len(one) > 1 else side.labels[one[0]] for one in groups)
    first = [one[0] for one in groups]
    words, special = tuple(side.words[n] for n in first), tuple(side.special[n] for n in first)
    return Axis(tuple(labels), words, special)


def axes(trace: Trace, attention: Attention | Tiles) -> tuple[Axis, Axis]:
    """Return the labels of rows and columns; a decoder's rows get the tokens that they predict."""
    keys = axis(trace.tokens(attention.key))
    said = produced_by_row(trace)
    if attention.site.stack == "decoder" and said:
        return produced_axis(said, trace.tokens(attention.query)), keys
    return axis(trace.tokens(attention.query)), keys


def row_meaning(trace: Trace, block: str) -> str:
    """Return a sentence on the roles of a map's rows and columns, and on the row labels."""
    if MAPS[block][0] == "decoder" and produced_by_row(trace):
        return say("each row is named after the token it writes, and looks at columns")
    return say("rows look at columns")


def visible(attention: Attention, head: int, intervention: Intervention) -> np.ndarray:
    """Return True for the cells a head may see under its run's edits, bool ``[query, key]``.

    See `visible_cells`: keep the scores if hard attention or switched-off heads are drawn.
    """
    plan = HeadPlan.at(intervention, replace(attention.site, head=head))
    weights = attention.weights[head]
    if attention.scores is None:
        return weights != 0  # NaN weights are shown as such
    divided = plan.edit(Temperature) is not None
    return np.asarray(visible_cells(weights, attention.scores[head], divided))


def _regroup(part: np.ndarray, rows: Axis, columns: Axis, words: bool, special: bool) -> Regrouped:
    """Remove special tokens, then merge words, so that no word includes a special token."""
    found = Regrouped(part, rows, columns, "")
    notes = []
    if not special:
        found = without_special(found.weights, found.queries, found.keys)
        notes.append(found.note)
    if words:
        found = merge_words(found.weights, found.queries, found.keys)
        notes.append(found.note)
    return Regrouped(found.weights, found.queries, found.keys, " ".join(filter(None, notes)))


def _members(side: Axis, words: bool, special: bool) -> tuple[tuple[int, ...], ...]:
    kept = [t for t in range(len(side)) if special or not side.special[t]]
    groups: dict[int, list[int]] = {}
    for token in kept:
        groups.setdefault(side.words[token] if words else token, []).append(token)
    return tuple(tuple(tokens) for tokens in groups.values())
