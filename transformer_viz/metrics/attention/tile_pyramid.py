"""Tiles of long maps: exact cells at the finest level, pooled ones at the others.

At level n a cell holds ``2 ** n`` rows and columns; a tile is a square of `TILE` cells a side.
Coarse levels would be made of the whole map each time, so the whole is kept once in at most `KEPT`
cells a side, and they are made of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace

TILE = 256  # cells of a tile's side
KEPT = 2048  # cells of a side of the whole that is kept
STRIPS = 16  # pieces in which it is made: as often its visitor may stop it

Sheet = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Square:
    """Which tile: its level, and its number down and across, from 0."""

    level: int
    row: int
    column: int


def levels(shape: tuple[int, int]) -> int:
    """How many levels a map of so many rows and columns has; the last one is a single tile."""
    return 1 + max(0, (max(shape) - 1).bit_length() - (TILE - 1).bit_length())


def kept_level(shape: tuple[int, int]) -> int:
    """The level at which the whole of a map is kept."""
    return max(0, (max(shape) - 1).bit_length() - (KEPT - 1).bit_length())


def whole(
    trace: Trace, site: Site, on_progress: Callable[[int, int], None], level: int | None = None
) -> Sheet:
    """The whole of a head's map at one level: weights float32, and what is hidden, bool.

    Args:
        trace: a run that has tiles.
        site: the head.
        on_progress: hears how many pieces of how many are done.
        level: left out, the one that is kept.

    Raises:
        LookupError: a map without tiles; says why.
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
    """One tile, of the queries and keys.

    Raises:
        ValueError: a tile that the map does not have; says how many there are.
        LookupError: a map without tiles; says why.
    """
    place = site.map, site.layer, site.head or 0
    return trace.pooled(*place, 2**square.level, *within(trace.map_shape(*place[:2]), square))


def cut(kept: Sheet, shape: tuple[int, int], square: Square) -> Sheet:
    """One tile of a coarser level than the kept one, of the whole at that."""
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
    """The rows and columns of a tile.

    Raises:
        ValueError: a tile that the map does not have; says how many there are.
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
