"""Tile pyramid of long maps: exact cells at the finest level, pooled ones at the others.

At level n a cell holds ``2 ** n`` rows and columns; a tile is a square of `TILE` cells a side.
Coarse levels would need the whole map each time. So the whole map is cached in at most `KEPT` cells
a side, and they are made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace

TILE = 256  # cells of a tile's side
KEPT = 2048  # cells of a side of the cached map
STRIPS = 16  # pieces in which it is made; it can be stopped between them

Sheet = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Square:
    """Tile coordinates: level, row and column, from 0."""

    level: int
    row: int
    column: int


def levels(shape: tuple[int, int]) -> int:
    """Return the number of levels of a map of this shape; the last one is a single tile."""
    return 1 + max(0, (max(shape) - 1).bit_length() - (TILE - 1).bit_length())


def kept_level(shape: tuple[int, int]) -> int:
    """Return the level at which a whole map is cached."""
    return max(0, (max(shape) - 1).bit_length() - (KEPT - 1).bit_length())


def whole(
    trace: Trace, site: Site, on_progress: Callable[[int, int], None], level: int | None = None
) -> Sheet:
    """Return a head's whole map at one level: weights float32, and a bool mask of hidden cells.

    Args:
        trace: Run with tiles.
        site: The head.
        on_progress: Called with the number of pieces done and in all.
        level: Level; by default the cached one.

    Raises:
        LookupError: The map has no tiles.
    """
    place = site.map, site.layer, site.head or 0
    shape = trace.map_shape(*place[:2])
    rows, step = shape[0], 2 ** (kept_level(shape) if level is None else level)
    high = -(-rows // (step * STRIPS)) * step
    strips = []
    for number, first in enumerate(range(0, rows, high)):
        on_progress(number, STRIPS)
        strips.append(trace.pooled(*place, step, slice(first, min(first + high, rows))))
    return np.concatenate([w for w, _ in strips]), np.concatenate([h for _, h in strips])


def part(trace: Trace, site: Site, square: Square) -> Sheet:
    """Return one tile, computed from queries and keys.

    Raises:
        ValueError: The map has no such tile.
        LookupError: The map has no tiles.
    """
    place = site.map, site.layer, site.head or 0
    return trace.pooled(*place, 2**square.level, *within(trace.map_shape(*place[:2]), square))


def cut(kept: Sheet, shape: tuple[int, int], square: Square) -> Sheet:
    """Return one tile of a coarser level than the cached one."""
    down, across = within(shape, square)
    step = 2 ** kept_level(shape)
    place = tuple(slice(side.start // step, -(-side.stop // step)) for side in (down, across))
    weights, hidden = (sheet[place] for sheet in kept)
    factor = 2**square.level // step
    for axis, side in enumerate(weights.shape):
        edges = np.arange(0, side, factor)
        weights = np.maximum.reduceat(weights, edges, axis=axis)
        hidden = np.logical_and.reduceat(hidden, edges, axis=axis)
    return weights, hidden


def within(shape: tuple[int, int], square: Square) -> tuple[slice, slice]:
    """Return the rows and columns of a tile.

    Raises:
        ValueError: The map has no such tile.
    """
    count = levels(shape)
    side = TILE * 2**square.level if 0 <= square.level < count else 0
    found = [
        slice(side * place, min(side * (place + 1), size))
        for place, size in zip((square.row, square.column), shape, strict=True)
    ]
    if not side or any(one.start < 0 or one.start >= one.stop for one in found):
        raise ValueError(
            f"There is no tile {square.row}, {square.column} of level {square.level}: a map of "
            f"{shape[0]:,} x {shape[1]:,} weights has {count} levels, and at each of them tiles "
            f"of {TILE} x {TILE} cells, counted from 0."
        )
    return found[0], found[1]
