"""Map of one head on a canvas: rows attend to columns."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np

from ..core.head_metrics import HEAD_METRICS
from ..core.sites import MAPS, Site, called
from ..core.trace import Trace
from ..i18n import join_words, say
from ..metrics import describe_row, statistic_change
from ..metrics.attention.map_cells import Cells, row_meaning
from ..metrics.attention.map_difference import appended, difference
from ..metrics.attention.thumbnails import largest_change
from .blob import both_palettes, pack
from .map_look import PLAIN, MapLook, Span, Zoom
from .ruler import rulers

WHOLE = 256  # rows and columns up to which every weight is sent
ROW = 26  # pixels of a row, while the sentence is short enough
HEIGHTS = (340, 720)  # the picture's size stays between these, so that a page does not jump
TOP = 96  # largest number of pixels for the names of the columns
BLIND = 5  # rows without visible keys that are named; the others are counted


def map_data(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    look: MapLook = PLAIN,
    *,
    before: Trace | None = None,
    most: float | None = None,
    numbers: str | None = None,
    direction: str | None = None,
) -> bytes:
    """Return one head as a map, for ``map.js``.

    Up to 256 rows and columns ``weights`` holds every weight, float32 ``[row, column]`` (NaN: no
    value), and ``masked`` uint8 the masked cells. Beyond that ``pooled`` uint8 holds the largest
    weight of each ``stride`` cells as ``zero + weight / unit`` (``pooled_masked``: all of them are
    masked). ``weights`` and ``masked`` then hold an exact ``region`` of at most 256 x 256 around
    the enlarged part, if that is small enough. ``chosen`` holds the exact row of ``token``. Only
    ``title``, ``said``, ``numbers``, ``note``, ``most`` and the arrays depend on the head.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0.
        look: Chosen cells, grouping of tokens, and colours.
        before: Another run on the same tokens; if given, the change since it is drawn.
        most: The weight at the dark end of the colours, unless the head has a larger one.
        numbers: Text about the head; if omitted, the metrics shown below a map.
        direction: Relation of rows and columns; if omitted, that of `row_meaning`.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: The two runs have different tokens, or the earlier one has more.
    """
    now = look.cells(trace, block, layer, head)
    was = look.cells(before, block, layer, head) if before else None
    shown = difference(now, was) if was else now.weights.astype(np.float32)
    limit = _limit(shown, most, was is not None)
    look = replace(look, zoom=_within(look.zoom, shown.shape))
    row = now.row_of(look.token)
    sheets, arrays = _sheets(shown, now.masked, look.zoom, limit, was is not None)
    if "pooled" in arrays:
        arrays |= _exact_row(shown, now.masked, row)
    if numbers is None:
        site = Site(*MAPS[block], layer, head)
        numbers = head_numbers(before or trace, trace, site, bool(now.note))
    header = {"part": "head", "view": "map", "seq": look.seq, "colours": both_palettes()}
    header |= {
        "title": f"{called(block)} L{layer} H{head}",
        **_sides(trace, block, now, was),
        "most": limit,
        **_chosen(look),
        "said": "" if row is None else _said(now, row, was is not None),
        "numbers": numbers,
        "direction": row_meaning(trace, block) if direction is None else direction,
        "note": _note(now, was),
    }
    return pack(header | sheets, **arrays)


def _sides(trace: Trace, block: str, now: Cells, was: Cells | None) -> dict[str, Any]:
    """Return the header fields of both sides, and the number of rows of the earlier run."""
    rows, columns = rulers(trace, block, now)
    return {
        "rows": rows.to_dict(),
        "columns": columns.to_dict(),
        "height": map_height(len(now.rows)),
        "change": was is not None,
        "old": len(was.rows) if was else len(now.rows),
    }


def _chosen(look: MapLook) -> dict[str, Any]:
    return {"token": look.token, "key": look.key, **look.colours(), "zoom": look.zoom}


def _limit(shown: np.ndarray, most: float | None, change: bool) -> float:
    """Return the weight, or the size of a change, at the end of the colours."""
    if change:
        return largest_change(shown)
    return max(most or 0.0, float(np.nanmax(shown, initial=0))) or 1.0


def map_height(rows: int) -> int:
    """Return the map's height in pixels for a number of rows, to reserve it before drawing."""
    return int(np.clip(rows * ROW + TOP, *HEIGHTS))


def _within(zoom: Zoom | None, shape: tuple[int, ...]) -> Zoom | None:
    """Return the enlarged part if it is valid; merging words may leave fewer rows."""
    if zoom is None or zoom == tuple((0, size) for size in shape):
        return None
    fits = (0 <= a < b <= size for (a, b), size in zip(zoom, shape, strict=True))
    return zoom if all(fits) else None


def _sheets(
    shown: np.ndarray, masked: np.ndarray, zoom: Zoom | None, limit: float, change: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the weights to send: all of them, or pooled with an exact enlarged part."""
    hidden = masked.astype(np.uint8)
    if max(shown.shape) <= WHOLE:
        return {"stride": [1, 1], "region": None}, {"weights": shown, "masked": hidden}
    stride = [-(-size // WHOLE) for size in shown.shape]
    zero, unit = (128, limit / 127) if change else (0, limit / 255)
    fields = {"stride": stride, "zero": zero, "unit": unit, "region": None}
    arrays = {
        "pooled": _bytes(pooled(shown, stride), zero, unit),
        "pooled_masked": _reduced(np.logical_and, masked, stride).astype(np.uint8),
    }
    region = None if zoom is None else _around(zoom, shown.shape)
    if region is not None:
        part = tuple(slice(*span) for span in region)
        arrays |= {"weights": shown[part], "masked": hidden[part]}
    return fields | {"region": region}, arrays


def _exact_row(shown: np.ndarray, masked: np.ndarray, row: int | None) -> dict[str, np.ndarray]:
    """Return the exact chosen row of a pooled map."""
    if row is None:
        return {}
    return {"chosen": shown[row], "chosen_masked": masked[row].astype(np.uint8)}


def pooled(shown: np.ndarray, stride: list[int]) -> np.ndarray:
    """Return the value of largest size of each ``stride`` cells, with its sign; NaN is ignored.

    Args:
        shown: Weights or signed changes ``[row, column]``.
        stride: Rows and columns of a pooled cell; the last ones may hold fewer.

    Returns:
        ``[ceil(row / stride), ceil(column / stride)]``; NaN where all cells are NaN.
    """
    high, low = (_reduced(extreme, shown, stride) for extreme in (np.fmax, np.fmin))
    return np.where(-low > high, low, high)


def _reduced(how: np.ufunc, table: np.ndarray, stride: list[int]) -> np.ndarray:
    for axis, (size, step) in enumerate(zip(table.shape, stride, strict=True)):
        table = how.reduceat(table, np.arange(0, size, step), axis=axis)
    return table


def _bytes(values: np.ndarray, zero: int, unit: float) -> np.ndarray:
    """Return values in steps of ``unit`` around ``zero``; in changes, 0 marks a missing value."""
    steps = np.clip(np.round(values / unit) + zero, min(1, zero), 255)
    return np.nan_to_num(steps, nan=0).astype(np.uint8)


def _around(zoom: Zoom, shape: tuple[int, ...]) -> Zoom | None:
    """Return the exact part to send: the enlarged one with its surroundings; None if too large."""
    if any(b - a > WHOLE for a, b in zoom):
        return None
    down, across = (
        _widened(span, size, min(WHOLE, size)) for span, size in zip(zoom, shape, strict=True)
    )
    return down, across


def _widened(span: Span, size: int, width: int) -> Span:
    """Return a span of ``width`` cells around another one, within a side of ``size``."""
    first = min(max(0, (sum(span) - width) // 2), size - width)
    return first, first + width


def _said(now: Cells, row: int, change: bool) -> str:
    said = describe_row(now.weights[row], now.rows.labels[row], now.columns.labels)
    return say("In the changed run {said}", said=said) if change else said


def head_numbers(before: Trace, after: Trace, site: Site, regrouped: bool) -> str:
    """Return the metrics shown below a map, such as entropy; of two runs both.

    Args:
        before, after: The runs; pass the same one twice for a single run.
        site: The head.
        regrouped: True if the map shows other cells than the model's tokens.
    """
    told = []
    for metric in filter(lambda metric: metric.below_map, HEAD_METRICS):
        values = statistic_change(before, after, site, metric.name)
        kept = values[1:] if before is after else values
        written = ("–" if isnan(value) else f"{value:.{metric.digits}f}" for value in kept)
        told.append(say(metric.below_map, numbers=" → ".join(written)))
    numbers = " · ".join(told)
    return say("{numbers} (of the model's own pieces)", numbers=numbers) if regrouped else numbers


def _note(now: Cells, was: Cells | None) -> str:
    """Return the note about regrouping, new rows, and rows without visible keys."""
    return " ".join(filter(None, (now.note, appended(now, was) if was else "", _blind(now.blind))))


def _blind(rows: tuple[str, ...]) -> str:
    if not rows:
        return ""
    named = join_words(say("“{word}”", word=label) for label in rows[:BLIND])
    if len(rows) > BLIND:
        named = say("{words} and {count} more", words=named, count=len(rows) - BLIND)
    return say(
        "Nothing is left to look at for {rows}: every cell of such a row is masked.", rows=named
    )
