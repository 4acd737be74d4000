"""All heads of a block as tiles on a canvas: the numbers and words that the browser needs.

One blob of bytes: ``u32`` MAGIC, ``u32`` length of the header, the header (JSON, utf-8), zeros up
to a multiple of 8, then the tiles, uint8 ``[layer, head, query, key]``; little-endian numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..metrics.tiles import head_tiles, largest_change, sentences
from ..records import Trace
from ..sites import MAPS
from ..views.overview import caption
from ..views.theme import DARK, LIGHT, Palette

MAGIC = 0x31485654  # "TVH1" as it stands in the file
EMPTY = 0  # a cell that did not exist before; changes use 1 to 255
UNCHANGED = 128
TOP = 34  # pixels for the names above the tiles and for the frames of the outermost
ROW = (18, 150)  # a layer's tiles are at least and at most so high, their gap included
MOST = 460  # pixels that tiles share while they can shrink; beyond TALLEST they scroll
TALLEST = 520
CHART = "head-map"  # the key of the opened map, where nothing else is said

Groups = Sequence[Sequence[int]]


def heads_data(
    trace: Trace,
    block: str,
    *,
    before: Trace | None = None,
    selected: tuple[int, int] = (0, 0),
    rows: Groups | None = None,
    columns: Groups | None = None,
    chart: str = CHART,
) -> bytes:
    """The overview of all heads as one blob for ``heads.js``.

    Alone, each tile is scaled by its own largest weight (255). With ``before`` all tiles share one
    symmetric scale, 128 = unchanged, 0 = was not there.

    Args:
        trace: the run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        before: another run over the same words; then the change since it is drawn.
        selected: layer and head of the opened one.
        rows: for each row of the opened map, the model's own rows that are in it, so that both can
            be lit together; left out, they are the same.
        columns: the same for its columns.
        chart: the key of the opened map; words that are lit in another picture light no tile.

    Raises:
        LookupError: a map that the trace lacks; names those it has.
        ValueError: the two runs cannot be compared; says why.
    """
    tiles = head_tiles(trace, block, before)
    layers, heads, height, width = tiles.shape
    queries, keys = (len(words) for words in sentences(trace, block))
    header = {
        "block": block,
        "layers": layers,
        "heads": heads,
        "h": height,
        "w": width,
        "row": _row(layers),
        "height": heads_height(layers),
        "selected": list(selected),
        "change": before is not None,
        "labels": _labels(trace, block, before, tiles),
        "caption": caption(block, before is not None),
        "chart": chart,
        "pooled": [-(-queries // height), -(-keys // width)],  # tokens in a cell
        "rows": None if rows is None else [list(tokens) for tokens in rows],
        "columns": None if columns is None else [list(tokens) for tokens in columns],
        "colours": {"light": _colours(LIGHT), "dark": _colours(DARK)},
    }
    return _blob(header, _bytes_of_amounts(tiles) if before is None else _bytes_of_changes(tiles))


def heads_height(layers: int) -> int:
    """Pixels that the overview takes, so that they can be kept free before it is drawn."""
    return min(TALLEST, TOP + layers * _row(layers))


def _row(layers: int) -> int:
    return int(np.clip(MOST // max(layers, 1), *ROW))


def _bytes_of_amounts(tiles: np.ndarray) -> np.ndarray:
    return np.round(tiles * 255).astype(np.uint8)


def _bytes_of_changes(changes: np.ndarray) -> np.ndarray:
    """-limit, 0 and limit become 1, 128 and 255."""
    steps = np.round(changes / largest_change(changes) * (UNCHANGED - 1)) + UNCHANGED
    return np.where(np.isnan(changes), EMPTY, steps).astype(np.uint8)


def _colours(palette: Palette) -> dict[str, Any]:
    names = ("card", "ink", "quiet", "line", "accent", "warm", "amounts", "changes")
    colours = asdict(palette)
    return {name: colours[name] for name in names}


def _labels(trace: Trace, block: str, before: Trace | None, tiles: np.ndarray) -> list[list[str]]:
    """What each tile says when one points at it, ``[layer][head]``."""
    bits, most = (_statistic(trace, block, column) for column in ("entropy", "max"))
    was = {} if before is None else _statistic(before, block, "entropy")

    def say(layer: int, head: int) -> str:
        place = (layer, head)
        spread, amount = f"{bits[place]:.2f} bits", f"largest {most[place]:.2f}"
        if before is not None:
            spread = f"{was[place]:.2f} → {spread}"
            amount = f"largest change {_furthest(tiles[place]):+.2f}"
        return f"L{layer} H{head} · entropy {spread} · {amount}"

    layers, heads = tiles.shape[:2]
    return [[say(layer, head) for head in range(heads)] for layer in range(layers)]


def _statistic(trace: Trace, block: str, column: str) -> dict[tuple[int, int], float]:
    """A column of the table of heads, by layer and head."""
    stack, kind = MAPS[block]
    heads = trace.heads
    table = heads[(heads["stack"] == stack) & (heads["block"] == kind)]
    places = zip(table["layer"], table["head"], strict=True)
    return dict(zip(places, table[column].astype(float), strict=True))


def _furthest(changes: np.ndarray) -> float:
    """The change of largest size, with its sign."""
    known = changes[~np.isnan(changes)]
    return float(known[np.abs(known).argmax()]) + 0.0 if known.size else 0.0


def _blob(header: dict[str, Any], tiles: np.ndarray) -> bytes:
    words = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8")
    front = struct.pack("<II", MAGIC, len(words)) + words
    return front + b"\0" * (-len(front) % 8) + np.ascontiguousarray(tiles).tobytes()
