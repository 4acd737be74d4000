"""All heads at once: the small maps and the numbers that ``browser/atlas.js`` draws.

The maps are sent as captured, 255 = weight 1. The browser maps weights to colours, so scale, colour
map, gamma and threshold change without a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.head_metrics import HeadMetric, shown_metrics
from ..core.tiles import LONG
from ..core.trace import Trace
from ..i18n import mark, say
from ..metrics.attention.thumbnails import halved, head_tiles, largest_change, stride, strongest
from .blob import both_palettes, pack
from .map_look import PLAIN, MapLook
from .ruler import rulers

STRONGEST = "max"  # the column with the ends of the scale
#: Titles of the three maps on the screen.
TITLES = {"encoder": mark("Encoder"), "decoder": mark("Decoder"), "cross": mark("Cross")}
UNCHANGED = 128  # in a map of changes; 0 is a row missing in the earlier run
CELLS = 900_000  # more cells than this are pooled, so that an atlas stays below a megabyte
AROUND = (154, 126)  # pixels for names, legend and controls, of one block and of several
ROW = (18, 150)  # smallest and largest height of a layer's tiles, their gap included
MAX_ROWS_HEIGHT = 460  # pixels that the rows of tiles share while they can shrink
TALLEST = 1.4  # largest ratio of a tile's height to its width
ROOM = (600, 1140)  # estimated pixels across for the tiles of one block, and of several


@dataclass(frozen=True, eq=False)
class HeadNumber:
    """Number of each head by which an atlas sorts and colours.

    Attributes:
        name: Column name.
        title: Title in the menus.
        values: Arrays ``[layer, head]`` by map; NaN where there is none.
        told: Show the number when hovering over the tile.
        digits: Decimals.
    """

    name: str
    title: str
    values: Mapping[str, np.ndarray]
    told: bool = False
    digits: int = 2


@dataclass(frozen=True)
class _Tiles:
    """Maps of a block ``[layer, head, row, column]``: weights uint8, or changes float32."""

    block: str
    cells: np.ndarray
    stride: tuple[int, int]
    links: np.ndarray


def atlas_data(
    trace: Trace,
    blocks: Sequence[str],
    look: MapLook = PLAIN,
    *,
    before: Trace | None = None,
    opened: tuple[str, int, int] | None = None,
    overlaid: Sequence[tuple[int, int]] = (),
    sort: str = "layer",
    scale: str = "head",
    words: str = "",
    numbers: Sequence[HeadNumber] | None = None,
) -> bytes:
    """Return every layer and head of one or several blocks as bytes for the browser.

    ``numbers{block}`` float32 ``[column, layer, head]`` holds the numbers of each head, NaN where
    unknown; ``columns`` in the header names the axis. ``metrics`` lists the sort options with their
    texts, so the scripts contain no metric names.

    Args:
        trace: The run to show.
        blocks: Any of ``encoder``, ``decoder`` and ``cross``, in display order.
        look: Colours, and the number of this state.
        before: Another run on the same tokens; if given, the change since it is drawn.
        opened: Block, layer and head of the open map.
        overlaid: Layers and heads of the open block that are drawn over it as lines.
        sort: ``layer``, the name of a metric to rank heads by, or ``change``.
        scale: ``head`` (each by its largest weight), ``common``, or the name of a metric that
            colours each tile as a whole.
        words: A sentence to show below.
        numbers: Sort and colour options that replace the metrics of this run.

    Raises:
        LookupError: The trace lacks a map; the message lists those it has.
        ValueError: No block, or two runs that cannot be compared; the message gives the reason.
    """
    if not blocks:
        raise ValueError("An atlas needs a block: encoder, decoder or cross; got none.")
    found = _pooled([_tiles(trace, block, before) for block in blocks])
    limit = 0.0 if before is None else max(largest_change(tiles.cells) for tiles in found)
    tables = [_numbers(trace, before, tiles, numbers) for tiles in found]
    metrics = [_told(metric, before is not None) for metric in shown_metrics()]
    if numbers is not None:
        metrics = [_of_number(number) for number in numbers]
    header = {
        "part": "atlas",
        "seq": look.seq,
        "colours": both_palettes(),
        "height": atlas_height(trace, blocks),
        "words": words,
        "opened": opened and list(opened),
        "overlaid": [list(place) for place in overlaid],
        "how": {"sort": sort, "scale": scale, **look.colours()},
        "limit": limit,
        "robust": before is None and bool(trace.tiles),
        "metrics": metrics + ([] if before is None else [_change()]),
        "columns": list(tables[0]),
        "sentences": _sentences(trace, blocks, found),
        "blocks": [_block(trace, tiles) for tiles in found],
    }
    return pack(header, **dict(_arrays(found, tables, limit, before is not None)))


def atlas_height(trace: Trace, blocks: Sequence[str]) -> int:
    """Return the atlas's height in pixels, to reserve it before drawing."""
    layers, heads = zip(*(trace.thumbnail(block).shape[:2] for block in blocks), strict=True)
    several = len(blocks) > 1
    wide = TALLEST * ROOM[several] / sum(heads)
    row = int(np.clip(min(MAX_ROWS_HEIGHT // max(layers), wide), *ROW))
    return AROUND[several] + min(MAX_ROWS_HEIGHT, max(layers) * row)


def _tiles(trace: Trace, block: str, before: Trace | None) -> _Tiles:
    changes = None if before is None else head_tiles(trace, block, before)
    cells = trace.thumbnail(block) if changes is None else changes
    return _Tiles(block, cells, stride(trace, block), strongest(trace, block, changes))


def _pooled(found: list[_Tiles]) -> list[_Tiles]:
    """Return the same maps, all halved until the number of cells is small enough."""
    while sum(tiles.cells.size for tiles in found) > CELLS:
        if all(max(tiles.cells.shape[2:]) == 1 for tiles in found):
            break  # the number of heads alone exceeds the limit
        found = [_half(tiles) for tiles in found]
    return found


def _half(tiles: _Tiles) -> _Tiles:
    down, across = tiles.stride
    return replace(tiles, cells=halved(tiles.cells), stride=(2 * down, 2 * across))


def _arrays(
    found: list[_Tiles], tables: list[dict[str, np.ndarray]], limit: float, change: bool
) -> Iterator[tuple[str, np.ndarray]]:
    for number, (tiles, table) in enumerate(zip(found, tables, strict=True)):
        yield f"tiles{number}", _bytes_of_changes(tiles.cells, limit) if change else tiles.cells
        yield f"numbers{number}", np.stack(list(table.values()))
        yield f"links{number}", tiles.links


def _bytes_of_changes(changes: np.ndarray, limit: float) -> np.ndarray:
    """Map -limit, 0 and limit to 1, 128 and 255."""
    steps = np.round(changes / limit * (UNCHANGED - 1)) + UNCHANGED
    return np.nan_to_num(steps, nan=0).astype(np.uint8)


def _told(metric: HeadMetric, change: bool) -> dict[str, Any]:
    """Return a metric for the scripts: its columns, and its texts in the user's language."""
    return {
        "name": metric.name,
        "before": _before(metric) if change and "{numbers}" in metric.heard else None,
        "title": say(metric.title),
        "heading": say(metric.heading or metric.title),
        "ranked": say(metric.ranked),
        "heard": say(metric.heard) if metric.heard else "",
        "digits": metric.digits,
        "signed": False,
    }


def _of_number(number: HeadNumber) -> dict[str, Any]:
    """Return the same fields for a given number."""
    return {
        "name": number.name,
        "before": None,
        "title": number.title,
        "heading": number.title,
        "ranked": say("ranked by {metric}, highest first", metric=number.title),
        "heard": f"{number.title} {{number}}" if number.told else "",
        "digits": number.digits,
        "signed": False,
    }


def _change() -> dict[str, Any]:
    """Return the additional sort option of a comparison."""
    return {
        "name": "change",
        "before": None,
        "title": say("change"),
        "heading": say("≈ largest change"),
        "ranked": say("ranked by largest change, highest first"),
        "heard": "",
        "digits": 2,
        "signed": True,
    }


def _before(metric: HeadMetric) -> str:
    return f"{metric.name} before"


def _numbers(
    trace: Trace, before: Trace | None, tiles: _Tiles, numbers: Sequence[HeadNumber] | None
) -> dict[str, np.ndarray]:
    """Return the numbers of each head, float32 ``[layer, head]`` by column; NaN where unknown."""
    shape, block = tiles.cells.shape[:2], tiles.block
    if numbers is None:
        columns = {m.name: _column(trace, block, m.name, shape) for m in shown_metrics()}
    else:
        columns = {one.name: one.values[block].astype(np.float32) for one in numbers}
    columns["strongest"] = _column(trace, block, STRONGEST, shape)
    if before is not None:
        columns["change"] = _furthest(tiles.cells).astype(np.float32)
        for metric in shown_metrics() if numbers is None else ():
            if "{numbers}" in metric.heard:
                columns[_before(metric)] = _column(before, block, metric.name, shape)
    return columns


def _column(trace: Trace, block: str, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return a column of ``trace.heads``, float32 ``[layer, head]``; stored traces may lack it."""
    numbers = np.full(shape, np.nan, np.float32)
    known = trace.head_column(block, name)[: shape[0], : shape[1]]
    numbers[: known.shape[0], : known.shape[1]] = known
    return numbers


def _furthest(changes: np.ndarray) -> np.ndarray:
    """Return each head's change of largest size, with its sign: ``[layer, head]``."""
    flat = np.nan_to_num(changes).reshape(*changes.shape[:2], -1)
    place = np.abs(flat).argmax(axis=-1)[..., None]
    return np.take_along_axis(flat, place, axis=-1)[..., 0]


def _block(trace: Trace, tiles: _Tiles) -> dict[str, Any]:
    rows, columns = rulers(trace, tiles.block)
    return {
        "name": tiles.block,
        "title": say(TITLES[tiles.block]),
        "counts": trace.head_counts(tiles.block).tolist(),
        "stride": list(tiles.stride),
        "rows": rows.sentence,
        "columns": columns.sentence,
    }


def _sentences(trace: Trace, blocks: Sequence[str], found: Sequence[_Tiles]) -> dict[str, Any]:
    """Return the labels of every sentence along a side, each sentence once.

    A long sentence has its length and only the labels that a link refers to, by position.
    """
    sentences: dict[str, Any] = {}
    for block, tiles in zip(blocks, found, strict=True):
        named = tiles.links.reshape(-1, 2, 2)
        for axis, side in enumerate(rulers(trace, block)):
            if len(side.labels) <= LONG:
                sentences[side.sentence] = side.labels
                continue
            some = {str(n): side.labels[n] for n in np.unique(named[:, axis])}
            known = sentences.setdefault(side.sentence, {"length": len(side.labels)})
            known |= some
    return sentences
