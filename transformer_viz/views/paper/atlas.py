"""Atlas of a block for print: every head as a small map."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...components.head_map import pooled
from ...core.palette import Palette, Ramp, palette, ramps
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.thumbnails import head_tiles, largest_change, sentences
from . import sheet
from .paper_look import PaperLook

MAX_CELLS = 100_000  # cells of a whole atlas; more would be a file that few programs open
SIDE = 32  # cells along a tile: finer ones cannot be distinguished on paper
TILE = 90.0  # points of a tile at most
INNER = 0.92  # share of its slot that a tile fills
FLAT = 1.6  # largest ratio of a tile's sides


def printed_atlas(
    trace: Trace,
    block: str,
    look: PaperLook,
    before: Trace | None = None,
) -> tuple[Figure, list[str]]:
    """Draw all heads of a block for print; rows are layers, columns are heads.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        look: Colours and size.
        before: Another run on the same tokens; if given, the change since it is drawn.

    Returns:
        The figure, and notes about it, in sentences.

    Raises:
        LookupError: The trace lacks the map; the message lists those it has.
        ValueError: The two runs have different tokens.
    """
    change = before is not None
    tiles = head_tiles(trace, block, before)
    common = look.common and not change
    weights = trace.thumbnail(block) / 255.0 if not change else tiles
    if common:
        tiles = weights
    layers, heads, rows, columns = tiles.shape
    colours, points = palette(look.dark), look.width * sheet.POINTS
    left = sheet.longest([f"L{layers - 1}"], sheet.SIZE) + 6
    place = min(TILE, (points - 2 * sheet.MARGIN - left) / heads)
    high = place * float(np.clip(rows / columns, 1 / FLAT, FLAT))
    x = sheet.MARGIN + left + (points - 2 * sheet.MARGIN - left - place * heads) / 2
    y = sheet.MARGIN + sheet.SIZE + 4.0
    figure, axes = sheet.sheet(points, y + high * layers + 24, colours)
    small = _shrunk(np.where(np.abs(weights) < look.threshold, 0, tiles))
    limit = largest_change(tiles) if change else float(tiles.max()) if common else 1.0
    boxes = _places(x, y, place, high, (layers, heads))
    cells = np.concatenate(
        [sheet.grid(x, y, across, down, small.shape[2:]) for x, y, across, down in boxes]
    )
    shades = colours.changes if change else ramps(look.dark)[look.ramp]
    levels = sheet.levels(small, limit, change, look.gamma).reshape(-1)
    sheet.cells(axes, cells, levels, shades, colours.card)
    sheet.frame(axes, boxes, colours.line, 0.4)
    _names(axes, boxes, (layers, heads), colours)
    _legend(axes, y + high * layers + 12, colours, shades, limit, change, common)
    notes = _notes(trace, block, small.shape, change or common)
    return figure, [*notes, *sheet.scale_notes(look)]


def _shrunk(tiles: np.ndarray) -> np.ndarray:
    """Pool tiles to so few cells that they can be distinguished."""
    layers, heads, rows, columns = tiles.shape
    side = min(SIDE, max(4, int((MAX_CELLS / (layers * heads)) ** 0.5)))
    count = -(-max(rows, columns) // side)
    shrunk = [[pooled(tile, [count, count]) for tile in layer] for layer in tiles]
    return np.array(shrunk)


def _places(x: float, y: float, across: float, down: float, shape: tuple[int, int]) -> sheet.Boxes:
    """Return the tiles as boxes ``[layer x head, 4]``."""
    layer, head = np.indices(shape).reshape(2, -1)
    size = np.broadcast_to([across * INNER, down * INNER], (len(layer), 2))
    return np.column_stack([x + head * across, y + layer * down, size])


def _names(axes: Axes, boxes: sheet.Boxes, shape: tuple[int, int], colours: Palette) -> None:
    layers, heads = shape
    size = float(np.clip(0.4 * min(boxes[0, 2:]), sheet.MIN_LETTER_SIZE, sheet.SIZE))
    across = max(1, int(np.ceil(2.6 * size / boxes[0, 2])))
    for head in range(0, heads, across):
        x, y, width, _ = boxes[head]
        sheet.write(axes, x + width / 2, y - 6, f"H{head}", size, colours.ink, ha="center")
    for layer in range(layers):
        x, y, _, height = boxes[layer * heads]
        sheet.write(axes, x - 5, y + height / 2, f"L{layer}", size, colours.ink, ha="right")


def _legend(
    axes: Axes,
    y: float,
    colours: Palette,
    shades: Ramp,
    limit: float,
    change: bool,
    common: bool,
) -> None:
    end = f"{limit:.2g}" if common else say("each head's largest weight")
    ends = (f"−{limit:.2g}", f"+{limit:.2g}") if change else ("0", end)
    sheet.legend(axes, sheet.MARGIN, y, shades, ends, colours.ink)


def _notes(trace: Trace, block: str, shape: tuple[int, ...], common: bool) -> list[str]:
    scale = say("Rows of tiles are layers, columns are heads; each head on its own scale.")
    if common:
        scale = say("Rows of tiles are layers, columns are heads; one scale for all heads.")
    notes = [scale, say("In a tile, rows look at columns.")]
    words = [len(tokens) for tokens in sentences(trace, block)]
    strides = [-(-count // cells) for count, cells in zip(words, shape[2:], strict=True)]
    if max(strides) > 1:
        down, across = strides
        notes.append(
            say(
                "Pooled: a cell is the largest of up to {down} × {across} weights.",
                down=down,
                across=across,
            )
        )
    return notes
