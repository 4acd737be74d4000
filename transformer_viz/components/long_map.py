"""Map of one head of a long text on a canvas; the browser fetches its cells on demand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.sites import MAPS, Site, called
from ..core.trace import Trace
from ..metrics.attention import tile_changes
from ..metrics.attention.map_cells import row_meaning
from .blob import both_palettes, pack
from .head_map import head_numbers, map_height
from .map_look import PLAIN, MapLook
from .map_words import side_words, words_name
from .ruler import rulers

ROBUST = 0.98  # quantile of a thumbnail's cells where the colours end
MIDDLE = 128  # the code of no change, in a thumbnail of changes
ALIKE = 1.25  # the largest weight ends the colours if at most this factor larger


def colour_end(small: np.ndarray) -> dict[str, float]:
    """Return the end of the colours of a long map, and its ``largest`` weight.

    The first rows of a causal map have few keys, up to one of weight 1. A ramp up to 1 would leave
    the rest of a long text without colour. So it ends at the 98th percentile of the cells (like
    "robust" limits of charts). All parts of a map share it.

    Args:
        small: The head's thumbnail, uint8 ``[row, column]`` in steps of 1/255.
    """
    seen = small[small > 0]
    if not len(seen):
        return {"most": 1.0, "largest": 1.0}
    largest, end = float(seen.max()), float(np.quantile(seen, ROBUST))
    return {"most": (largest if largest <= ALIKE * end else end) / 255, "largest": largest / 255}


@dataclass(frozen=True)
class TileLine:
    """Addresses and levels of a map's tiles.

    Attributes:
        address: URL for ``?of=..&level=..&row=..&column=..``; empty without a server.
        of: Name of the map.
        size: Cells of a tile's side.
        levels: Number of levels; at level n a cell holds ``2 ** n`` rows and columns.
        ahead: True for a map of changes whose run is not finished; the trace is another one's.
        words: URL of the token labels.
        far: URL of the strongest links over long distances.
    """

    address: str
    of: str
    size: int
    levels: int
    ahead: bool = False
    words: str = ""
    far: str = ""


def long_map_data(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    line: TileLine,
    look: MapLook = PLAIN,
    *,
    direction: str | None = None,
    note: str = "",
    before: Trace | None = None,
) -> bytes:
    """Return one head as a map that is fetched in tiles, for ``map.js``.

    ``pooled`` uint8 is the head's thumbnail, shown until the tiles arrive. Everything else is as in
    :func:`~transformer_viz.components.head_map.map_data`, and ``tiles`` holds their addresses. Rows
    and columns are the model's tokens. Labels are sent along only without a URL for them.

    Args:
        trace: A run that has tiles.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: Indices from 0.
        line: Addresses of the tiles.
        look: Chosen cells and colours.
        direction: Relation of rows and columns; if omitted, that of `row_meaning`.
        note: Note about the run.
        before: Another run on the same tokens; if given, the change since it is drawn.

    Raises:
        ValueError: The runs have maps of different sizes; the message names them.
        LookupError: The trace lacks the map or its tiles; the message gives the reason.
    """
    shape = trace.map_shape(block, layer)
    words = {} if line.words else side_words(trace, block)
    small = trace.thumbnail(block)[layer, head]
    site = Site(*MAPS[block], layer, head)
    header = {"part": "head", "view": "map", "seq": look.seq, "colours": both_palettes()}
    header |= {
        "title": f"{called(block)} L{layer} H{head}",
        **_sides(trace, block, words),
        "height": map_height(shape[0]),
        "change": before is not None,
        "old": shape[0],
        **colour_end(small),
        "token": look.token,
        "key": look.key,
        **look.colours(),
        "zoom": look.zoom,
        "said": "",
        "numbers": "" if line.ahead else head_numbers(before or trace, trace, site, False),
        "direction": row_meaning(trace, block) if direction is None else direction,
        "note": note,
        "stride": [-(-size // side) for size, side in zip(shape, small.shape, strict=True)],
        "zero": 0,
        "unit": 1 / 255,
        "region": None,
        "tiles": asdict(line) | {"named": words_name(trace, block)},
        **words,
    }
    if before is not None:
        header["most"] = tile_changes.colour_end(trace, before, site)
        small = _changed(small, before.thumbnail(block)[layer, head])
        header |= {"zero": MIDDLE, "unit": 2 / 255}
    return pack(header, pooled=small, pooled_masked=np.zeros(small.shape, np.uint8))


def _changed(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the change of a thumbnail, shown until the tiles arrive; 0 is no valid code."""
    change = now.astype(np.int16) - before
    return np.clip(MIDDLE + np.round(change / 2), 1, 255).astype(np.uint8)


def _sides(trace: Trace, block: str, words: dict[str, Any]) -> dict[str, Any]:
    """Return sentence and length of both sides, and their labels if these are sent along."""
    sides: dict[str, Any] = {}
    for name, side in zip(("row", "column"), rulers(trace, block), strict=True):
        sides[f"{name}s"] = {"sentence": side.sentence, "count": len(side.labels)}
        if words:
            sides[f"{name}s"]["labels"] = words.pop(f"{name}_labels")
    return sides
