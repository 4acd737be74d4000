"""Attention of heads as lines between tokens, for print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.path import Path

from ...core.palette import OKABE_ITO, Palette, palette
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.attention.map_cells import Cells, cells, refuse_lines
from ...metrics.attention.map_difference import appended, difference
from ...metrics.attention.thumbnails import largest_change
from . import sheet
from .paper_look import PaperLook

HEADS = 8  # heads that can be distinguished by colour
MAX_WORDS = 256  # tokens along a side that can be read on paper
MIN_DRAWN_WEIGHT = 0.01  # weight from which a line is drawn
STEP = 15.0  # points from token to token
DROP = 150.0  # points from the upper tokens to the lower ones
THICK = (0.4, 2.4)  # points of a line of weight 0 and 1
SLANT = np.deg2rad(50)
BESIDE = mark("Words on the left look at those on the right.")
ABOVE = mark("Words below look at those above.")
APART = 1.3  # points between the lines that two heads draw from the same token
#: Dash patterns of the heads, so that colour is not the only cue.
DASHES: tuple[Any, ...] = (
    *("solid", (0, (6, 1.5)), (0, (2.5, 1.2)), (0, (8, 1.5, 2, 1.5)), (0, (1.2, 1.2))),
    *((0, (12, 2)), (0, (4, 3)), (0, (8, 1.5, 1.2, 1.5, 1.2, 1.5))),
)

Points = np.ndarray  # [token, (x, y)]: start points of a token's lines


@dataclass(frozen=True, eq=False)
class _Ends:
    """Geometry of the lines.

    Attributes:
        queries, keys: Start and end points, ``[token, (x, y)]``.
        bend: Offset of the control points.
        height: Height of the sheet.
        said: Sentence with the direction of the lines.
    """

    queries: Points
    keys: Points
    bend: tuple[float, float]
    height: float
    said: str


def printed_lines(
    trace: Trace,
    block: str,
    heads: Sequence[tuple[int, int]],
    look: PaperLook,
    before: Trace | None = None,
) -> tuple[Figure, list[str]]:
    """Draw heads as lines between tokens: the more weight, the stronger the line.

    Self-attention has query tokens on the left; cross-attention has the source above.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        heads: Layer and head of those to draw, at most eight; each has its colour.
        look: Grouping of tokens, smallest drawn weight, and size.
        before: Another run on the same tokens; if given, the change since it is drawn.

    Returns:
        The figure, and notes about it, in sentences.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: Too many heads or tokens, or runs with different tokens.
    """
    if not 0 < len(heads) <= HEADS:
        raise ValueError(f"Lines show 1 to {HEADS} heads in colours; got {len(heads)}.")
    grouped = {"words": look.words, "special": look.special}
    refuse_lines(trace)
    chosen = [cells(trace, block, *place, **grouped) for place in heads]
    first = chosen[0]
    _require_readable(first)
    least = max(MIN_DRAWN_WEIGHT, look.threshold)
    values, news = [now.weights for now in chosen], ""
    if before is not None:
        olds = [cells(before, block, *place, **grouped) for place in heads]
        values = [difference(*pair) for pair in zip(chosen, olds, strict=True)]
        news = appended(first, olds[0])
    kept = [_strongest(value, look.top) for value in values]
    colours, points = palette(look.dark), look.width * sheet.POINTS
    ends = (_above if block == "cross" else _beside)(first, points)
    figure, axes = sheet.sheet(points, ends.height + 24, colours)
    limit = None if before is None else max(map(largest_change, values))
    pens = [_pen(number, len(heads), colours, limit is not None) for number in range(len(heads))]
    for value, pen in zip(kept, pens, strict=True):
        _lines(axes, value, ends, pen, least, limit or 1.0)
    _names(axes, first, ends, colours)
    names = [f"L{layer} H{head}" for layer, head in heads]
    _legend(axes, names, pens, colours.ink, ends.height + 10, limit)
    top = say("Of each word at most {count} lines are drawn, the strongest.", count=look.top)
    notes = [say(ends.said), first.note, news, top if look.top else "", _left_out(values, least)]
    return figure, [note for note in notes if note]


def _strongest(values: np.ndarray, top: int) -> np.ndarray:
    """Return the largest weights of each row, earlier ones first on ties; 0 keeps all."""
    if not 0 < top < values.shape[1]:
        return values
    order = np.argsort(-np.abs(np.nan_to_num(values)), axis=1, kind="stable")
    kept = np.full_like(values, np.nan)
    first = order[:, :top]
    np.put_along_axis(kept, first, np.take_along_axis(values, first, axis=1), axis=1)
    return kept


def _require_readable(first: Cells) -> None:
    if max(len(first.rows), len(first.columns)) > MAX_WORDS:
        raise ValueError(
            say(
                "Lines between more than {most} words cannot be read on paper; this run has "
                "{rows} and {columns}. Print the map instead.",
                most=MAX_WORDS,
                rows=len(first.rows),
                columns=len(first.columns),
            )
        )


@dataclass(frozen=True)
class _Pen:
    """Style of a head's lines: colours of decrease and increase, dashes, sideways offset."""

    less: str
    more: str
    dashes: Any
    aside: float


def _pen(number: int, count: int, colours: Palette, change: bool) -> _Pen:
    aside = (number - (count - 1) / 2) * APART
    if change:
        return _Pen(colours.changes[0], colours.changes[-1], DASHES[number], aside)
    last = "#000000" if colours.card == "#FFFFFF" else "#FFFFFF"
    shade = (*OKABE_ITO[: HEADS - 1], last)[number]
    return _Pen(shade, shade, DASHES[number], aside)


def _beside(now: Cells, width: float) -> _Ends:
    """Place query tokens on the left and key tokens on the right, reading downward."""
    sides = now.rows.labels, now.columns.labels
    edge = [min(0.3 * width, sheet.longest(side, sheet.SIZE)) + 6 for side in sides]
    left, right = sheet.MARGIN + edge[0], width - sheet.MARGIN - edge[1]
    downs = [sheet.MARGIN + STEP * (np.arange(len(side)) + 0.5) for side in sides]
    queries, keys = (
        np.column_stack([np.full(len(down), x), down])
        for x, down in zip((left, right), downs, strict=True)
    )
    height = sheet.MARGIN + STEP * max(map(len, sides))
    return _Ends(queries, keys, ((right - left) / 2, 0.0), height, BESIDE)


def _above(now: Cells, width: float) -> _Ends:
    """Place the source above and the query tokens below, both from left to right."""
    sides = now.rows.labels, now.columns.labels
    slanted = [min(0.3 * width, sheet.longest(side, sheet.SIZE)) for side in sides]
    hang = max(slanted) * np.cos(SLANT)
    room = width - 2 * sheet.MARGIN - hang
    left = sheet.MARGIN + hang / 2
    top = sheet.MARGIN + slanted[1] * np.sin(SLANT) + sheet.SIZE
    across = [left + room * (np.arange(len(side)) + 0.5) / len(side) for side in sides]
    queries, keys = (
        np.column_stack([x, np.full(len(x), y)])
        for x, y in zip(across, (top + DROP, top), strict=True)
    )
    below = slanted[0] * np.sin(SLANT) + sheet.SIZE + 4
    return _Ends(queries, keys, (0.0, -DROP / 2), float(top + DROP + below), ABOVE)


def _lines(
    axes: Axes, values: np.ndarray, ends: _Ends, pen: _Pen, least: float, limit: float
) -> None:
    """Draw one head's lines, the strongest on top; a weight of ``limit`` has full strength."""
    sizes = np.abs(np.nan_to_num(values))
    query, key = np.nonzero((sizes >= least) & (sizes > 0))
    order = np.argsort(sizes[query, key], kind="stable")
    query, key = query[order], key[order]
    strength = sizes[query, key] / limit
    shades = np.where(values[query, key] > 0, pen.more, pen.less)
    bend = np.array(ends.bend)
    aside = np.array([0, pen.aside] if bend[0] else [pen.aside, 0])
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    curves = [
        Path(np.array([start, start + bend, end - bend, end]) + aside, codes)
        for start, end in zip(ends.queries[query], ends.keys[key], strict=True)
    ]
    inks = [
        to_rgba(shade, float(np.clip(p, 0.06, 1)))
        for shade, p in zip(shades, strength, strict=True)
    ]
    widths = THICK[0] + (THICK[1] - THICK[0]) * strength
    lines = PathCollection(
        curves, facecolors="none", edgecolors=inks, linewidths=widths, linestyles=[pen.dashes]
    )
    lines.set_gid("lines")
    axes.add_collection(lines, autolim=False)


def _names(axes: Axes, now: Cells, ends: _Ends, colours: Palette) -> None:
    most = 0.3 * axes.get_xlim()[1]
    level = ends.bend[0] != 0  # two columns have level text, two rows have slanted text
    sides = (
        (now.rows.labels, ends.queries, "right", 1),
        (now.columns.labels, ends.keys, "left", -1),
    )
    for labels, places, across, way in sides:
        turned: dict[str, Any] = {} if level else {"rotation": 50, "va": "center"}
        for label, (x, y) in zip(labels, places, strict=True):
            name = sheet.shortened(label, sheet.SIZE, most)
            at = (x - 4 * way, y) if level else (x, y + 5 * way)
            sheet.write(axes, *at, name, sheet.SIZE, colours.ink, ha=across, **turned)


def _legend(
    axes: Axes,
    names: Sequence[str],
    pens: Sequence[_Pen],
    ink: str,
    y: float,
    limit: float | None,
) -> None:
    """Draw the legend of the heads, or the meaning of both colours of changes."""
    change = limit is not None
    shown = [
        (name, ink if change else pen.more, pen.dashes)
        for name, pen in zip(names, pens, strict=True)
    ]
    if change:
        ends = (
            (say("less, −{most:.2g}", most=limit), pens[0].less),
            (say("more, +{most:.2g}", most=limit), pens[0].more),
        )
        shown += [(name, shade, "solid") for name, shade in ends]
    x = float(sheet.MARGIN)
    for name, shade, dashes in shown:
        axes.plot([x, x + 22], [y, y], color=shade, lw=2, ls=dashes)
        sheet.write(axes, x + 26, y, name, sheet.SIZE, ink)
        x += 38 + sheet.width_of(name, sheet.SIZE)


def _left_out(values: Sequence[np.ndarray], least: float) -> str:
    sizes = np.abs(np.nan_to_num(np.concatenate([value.reshape(-1) for value in values])))
    missing = sizes[(sizes > 0) & (sizes < least)]
    if not len(missing):
        return ""
    share = missing.sum(dtype=np.float64) / sizes.sum(dtype=np.float64)
    return say(
        "Lines below {least:g} are left out: {count:,}, {share:.1%} of all weight.",
        least=least,
        count=len(missing),
        share=share,
    )
