"""Attention map of one head for print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...components.head_map import pooled
from ...core.palette import Palette, Ramp, palette, ramps
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.map_cells import (
    Cells,
    cells,
    coarse_cells,
    is_tiled,
    part_cells,
    refuse_difference,
    row_meaning,
)
from ...metrics.attention.map_difference import appended, difference
from ...metrics.attention.thumbnails import largest_change
from ...metrics.attention.word_merging import Axis
from . import sheet
from .paper_look import PaperLook

MAX_SIDE_CELLS = 256  # cells along a side; longer sentences are pooled
CELL = 40.0  # points of a cell at most
TALL = 1.5  # of the width that a map may be high
MAX_NAMES_SHARE = 0.3  # of the width that the names of rows may take
SLANT = np.deg2rad(50)


@dataclass(frozen=True)
class _Plan:
    """Layout of the map on its sheet, in points; ``pooled`` counts cells per drawn cell."""

    x: float
    y: float
    across: float
    down: float
    size: float
    pooled: int


def printed_map(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    look: PaperLook,
    before: Trace | None = None,
) -> tuple[Figure, list[str]]:
    """Draw one head as a map for print: rows attend to columns, masked cells hatched.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0.
        look: Grouping of tokens, colours and size.
        before: Another run on the same tokens; if given, the change since it is drawn.

    Returns:
        The figure, and notes about it, in sentences.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: The two runs have different tokens, or no row or column is shown.
    """
    grouped = {"words": look.words, "special": look.special}
    spans = _spans(look, trace.map_shape(block, layer) if is_tiled(trace) else None)
    if is_tiled(trace):
        refuse_difference(before)
        now, was = coarse_cells(trace, block, layer, head, MAX_SIDE_CELLS), None
    else:
        now = cells(trace, block, layer, head, **grouped)
        was = before and cells(before, block, layer, head, **grouped)
    values = difference(now, was) if was else np.where(now.masked, np.nan, now.weights)
    colours = palette(look.dark)
    whole = trace.map_shape(block, layer) if is_tiled(trace) else now.weights.shape
    limit = largest_change(values) if was else float(np.nanmax(values, initial=look.most))
    if spans and is_tiled(trace):
        now = part_cells(trace, block, layer, head, *spans)
        values = np.where(now.masked, np.nan, now.weights)
    elif spans:
        now, values = _enlarged(now, spans), values[spans]
    plan = _plan(now, look.width * sheet.POINTS)
    said = row_meaning(trace, block)
    notes = [
        say("{said}.", said=said[:1].upper() + said[1:]),
        now.note,
        appended(now, was) if was else "",
        _enlarged_note(spans, whole) if spans else "",
        _pooled(plan),
        *sheet.scale_notes(look),
    ]
    figure, axes = sheet.sheet(look.width * sheet.POINTS, _height(now, plan), colours)
    shades = colours.changes if was else ramps(look.dark)[look.ramp]
    levels = partial(sheet.levels, limit=limit, change=bool(was), gamma=look.gamma)
    _draw(axes, values, now, plan, colours, shades, partial(levels, threshold=look.threshold))
    _names(axes, now, plan, colours)
    _legend(axes, plan, now, colours, shades, limit, change=bool(was))
    return figure, [note for note in notes if note]


def _spans(look: PaperLook, tokens: tuple[int, int] | None) -> tuple[slice, slice] | None:
    """Return the part to draw; None for all, or if a part of a long text does not fit a sheet."""
    if look.zoom is None:
        return None
    if tokens and max(last - first for first, last in look.zoom) > MAX_SIDE_CELLS:
        return None
    rows, columns = (slice(*span) for span in look.zoom)
    return rows, columns


def _enlarged(now: Cells, spans: tuple[slice, slice]) -> Cells:
    """Return a part of a map.

    Raises:
        ValueError: Rows or columns that the map lacks.
    """
    for span, size in zip(spans, now.weights.shape, strict=True):
        if not 0 <= span.start < span.stop <= size:
            raise ValueError(
                f"A part from {span.start} to {span.stop} was asked for; the map has {size} rows "
                "or columns on that side."
            )
    rows, columns = spans
    return replace(
        now,
        weights=now.weights[spans],
        masked=now.masked[spans],
        rows=_side(now.rows, rows),
        columns=_side(now.columns, columns),
        members=now.members[rows],
        parts=now.parts[columns],
    )


def _side(side: Axis, span: slice) -> Axis:
    return Axis(side.labels[span], side.words[span], side.special[span])


def _enlarged_note(spans: tuple[slice, slice], whole: tuple[int, ...]) -> str:
    rows, columns = spans
    return say(
        "Enlarged: rows {first} to {last} of {rows}, columns {left} to {right} of {columns}.",
        first=rows.start + 1,
        last=rows.stop,
        rows=whole[0],
        left=columns.start + 1,
        right=columns.stop,
        columns=whole[1],
    )


def _plan(now: Cells, width: float) -> _Plan:
    rows, columns = now.weights.shape
    if not now.weights.size:
        raise ValueError(
            say(
                "A map of {rows} rows and {columns} columns has nothing to draw.",
                rows=rows,
                columns=columns,
            )
        )
    pooled = -(-max(rows, columns) // MAX_SIDE_CELLS)
    left = min(MAX_NAMES_SHARE * width, sheet.longest(now.rows.labels, sheet.SIZE)) + 6
    hang = sheet.width_of(now.columns.labels[-1], sheet.SIZE) * np.cos(SLANT)
    room = width - 2 * sheet.MARGIN - left - min(hang, MAX_NAMES_SHARE * width)
    across = min(CELL, room / columns)
    down = min(across, TALL * width / rows)
    size = float(np.clip(0.9 * down, sheet.MIN_LETTER_SIZE, sheet.SIZE))
    top = min(sheet.longest(now.columns.labels, size), MAX_NAMES_SHARE * width) * np.sin(SLANT)
    x = sheet.MARGIN + left + (room - across * columns) / 2
    return _Plan(x, sheet.MARGIN + float(top) + size + 4, across, down, size, pooled)


def _height(now: Cells, plan: _Plan) -> float:
    return plan.y + plan.down * len(now.rows) + 24


def _pooled(plan: _Plan) -> str:
    k = plan.pooled
    fields = {"down": k, "across": k}
    pooled = say("Pooled: a cell is the largest of up to {down} × {across} weights.", **fields)
    return "" if k == 1 else pooled


def _draw(
    axes: Axes,
    values: np.ndarray,
    now: Cells,
    plan: _Plan,
    colours: Palette,
    shades: Ramp,
    levels: Callable[[np.ndarray], np.ndarray],
) -> None:
    rows, columns = values.shape
    size = plan.across * columns, plan.down * rows
    runs = sheet.runs(now.masked, plan.x, plan.y, plan.across, plan.down)
    sheet.hatch(axes, runs, colours.hatch)
    small = pooled(values, [plan.pooled] * 2)
    boxes = sheet.grid(plan.x, plan.y, *size, small.shape)
    sheet.cells(axes, boxes, levels(small).reshape(-1), shades, colours.card)
    sheet.frame(axes, np.array([[plan.x, plan.y, *size]]), colours.line)


def _names(axes: Axes, now: Cells, plan: _Plan, colours: Palette) -> None:
    """Write tokens left and above; if there are many, every n-th."""
    most = MAX_NAMES_SHARE * axes.get_xlim()[1]
    step = max(1, int(np.ceil(1.15 * plan.size / plan.down)))
    for row in range(0, len(now.rows), step):
        name = sheet.shortened(now.rows.labels[row], plan.size, most)
        y = plan.y + (row + 0.5) * plan.down
        sheet.write(axes, plan.x - 4, y, name, plan.size, colours.ink, ha="right")
    step = max(1, int(np.ceil(1.15 * plan.size / plan.across / np.sin(SLANT))))
    for column in range(0, len(now.columns), step):
        name = sheet.shortened(now.columns.labels[column], plan.size, most)
        x = plan.x + (column + 0.5) * plan.across
        sheet.write(axes, x, plan.y - 4, name, plan.size, colours.ink, rotation=50, va="baseline")


def _legend(
    axes: Axes,
    plan: _Plan,
    now: Cells,
    colours: Palette,
    shades: Ramp,
    limit: float,
    change: bool,
) -> None:
    y = plan.y + plan.down * len(now.rows) + 14
    ends = (f"−{limit:.2g}", f"+{limit:.2g}") if change else ("0", f"{limit:.2g}")
    x = sheet.legend(axes, sheet.MARGIN, y, shades, ends, colours.ink) + 16
    if now.masked.any():
        box = np.array([[x, y - 4, 12, 8]])
        sheet.hatch(axes, box, colours.hatch)
        sheet.frame(axes, box, colours.line, 0.3)
        sheet.write(axes, x + 16, y, say("masked: may not look there"), sheet.SIZE, colours.ink)
