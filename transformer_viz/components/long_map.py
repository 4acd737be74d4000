"""One head of a long text as a map on a canvas, whose cells a browser fetches as it needs them."""

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

ROBUST = 0.98  # of the cells of a thumbnail: up to here their colours differ
MIDDLE = 128  # the code of no change, in a thumbnail of changes
ALIKE = 1.25  # times the end of the colours: a largest weight no farther off is the end itself


def colour_end(small: np.ndarray) -> dict[str, float]:
    """Where the colours of a long map end, and its ``largest`` weight.

    The first rows of a causal map have few words to look at, up to one of weight 1, and with a ramp
    up to there nothing else of a long text has a colour. So it ends at the 98th percentile of the
    cells (as charts with "robust" limits do), of the whole map: the same wherever one looks.

    Args:
        small: the head's thumbnail, uint8 ``[row, column]`` in steps of 1/255.
    """
    seen = small[small > 0]
    if not len(seen):
        return {"most": 1.0, "largest": 1.0}
    largest, end = float(seen.max()), float(np.quantile(seen, ROBUST))
    return {"most": (largest if largest <= ALIKE * end else end) / 255, "largest": largest / 255}


@dataclass(frozen=True)
class TileLine:
    """Where the tiles of a map are had.

    ``address`` answers ``?of=..&level=..&row=..&column=..``, empty where nobody answers; ``of``
    names the map; ``size`` is the cells of a tile's side, ``levels`` how many there are: at level n
    a cell holds ``2 ** n`` rows and columns. ``ahead``: the map is of changes whose run has not
    come yet, so that the trace beside it is another one's. ``words`` is the address of the words
    along its sides, ``far`` of its strongest links over far distances.
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
    """One head as a map that is fetched in tiles, for ``map.js``.

    ``pooled`` uint8 is the head's thumbnail, which stands there until the tiles come; everything
    else is as in :func:`~transformer_viz.components.head_map.map_data`, and ``tiles`` says where
    they are had. Tokens are the model's own; their words are sent along only where nobody answers
    at the address of the words.

    Args:
        trace: a run that has tiles.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer, head: from 0.
        line: where the tiles are had.
        look: what is chosen, and the colours.
        direction: what rows and columns are to each other; left out, that of `row_meaning`.
        note: what a reader must know of the run.
        before: another run over the same words; then the change since it is drawn instead.

    Raises:
        ValueError: the runs have maps of different sizes; says which.
        LookupError: a map that the trace lacks or has no tiles of; says why.
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
    """The change of a thumbnail, which stands there until the tiles come; 0 is no code of it."""
    change = now.astype(np.int16) - before
    return np.clip(MIDDLE + np.round(change / 2), 1, 255).astype(np.uint8)


def _sides(trace: Trace, block: str, words: dict[str, Any]) -> dict[str, Any]:
    """Whose tokens stand along the sides, one in each row and column, how many, and their labels
    if these are sent along."""
    sides: dict[str, Any] = {}
    for name, side in zip(("row", "column"), rulers(trace, block), strict=True):
        sides[f"{name}s"] = {"sentence": side.sentence, "count": len(side.labels)}
        if words:
            sides[f"{name}s"]["labels"] = words.pop(f"{name}_labels")
    return sides
