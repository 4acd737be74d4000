"""Max-pooling of a map: the largest weight of each cell, and True if all of it is hidden.

Within a row the softmax keeps the order of its scores. So the largest exponent of a cell is found
first, and the exponential is computed for it only: one number in thousands of a long map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .parts import Matrix, Part

ROWS, COLUMNS = 256, 1024  # weights processed together, to fit in a CPU cache
#: Function that folds a table of whole rows and columns into cells.
Fold = Callable[[np.ndarray], np.ndarray]


def pooled(
    parts: Sequence[Part | Matrix], head: int, rows: slice, columns: slice, high: int, wide: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of a head's map in cells of ``high x wide``.

    Rows and columns must lie on the map.

    Returns:
        The largest weight of each cell, float32 ``[cell row, cell column]``, and True for cells
        without visible keys, bool of the same shape. The last cells may hold fewer weights.
    """
    shape = tuple(
        -(-(side.stop - side.start) // step) for side, step in ((rows, high), (columns, wide))
    )
    weights, hidden = np.full(shape, -np.inf, np.float32), np.ones(shape, bool)
    for part in parts:
        mine = head - part.first_head
        first = max(rows.start, part.first_row)
        last = min(rows.stop, part.first_row + part.rows)
        if not 0 <= mine < part.heads:
            continue
        for down in _pieces(rows.start, first, last, high, ROWS):
            for across in _pieces(
                columns.start, columns.start, min(columns.stop, part.keys), wide, COLUMNS
            ):
                top, left = down.start - rows.start, across.start - columns.start
                own = slice(down.start - part.first_row, down.stop - part.first_row)
                found, gone = _cells(part, mine, own, across, _folding(top, left, high, wide))
                place = np.s_[
                    top // high : top // high + found.shape[0],
                    left // wide : left // wide + found.shape[1],
                ]
                weights[place] = np.maximum(weights[place], found)
                hidden[place] &= gone
    weights = np.where(np.isneginf(weights), 0, weights).astype(np.float32)
    for made in (weights, hidden):
        made.setflags(write=False)
    return weights, hidden


def _pieces(origin: int, first: int, last: int, cell: int, most: int) -> Iterator[slice]:
    """Yield pieces of a side that end at cell borders, or within a cell larger than ``most``."""
    step = most // cell * cell if cell <= most else most
    while first < last:
        stop = origin + ((first - origin) // step + 1) * step
        if cell > most:
            stop = min(stop, origin + ((first - origin) // cell + 1) * cell)
        yield slice(first, min(stop, last))
        first = min(stop, last)


def _folding(top: int, left: int, high: int, wide: int) -> Fold:
    """Return a function that folds a piece with this offset from the first cell."""

    def fold(table: np.ndarray) -> np.ndarray:
        return _fold(_fold(table, top, high).T, left, wide).T

    return fold


def _fold(table: np.ndarray, begin: int, cell: int) -> np.ndarray:
    """Return the maximum of each ``cell`` rows, ``[cell, column]``."""
    count = len(table)
    if cell == 1:
        return table
    if begin % cell == 0 and count % cell == 0:
        found: np.ndarray = table.reshape(count // cell, cell, -1).max(axis=1)
        return found
    starts = np.arange(-(begin % cell), count, cell).clip(0)
    return np.asarray(np.maximum.reduceat(table, starts, axis=0))


def _cells(
    part: Part | Matrix, head: int, rows: slice, columns: slice, fold: Fold
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest weight of each cell of a piece, and the completely hidden cells."""
    if isinstance(part, Matrix) or not part.keeps_order(head):
        return fold(part.tile(head, rows, columns)), ~fold(part.seen(head, rows, columns))
    all_seen = part.uniform(head, rows, columns)
    if all_seen is False:
        gone = ~fold(part.seen(head, rows, columns))
        return np.zeros(gone.shape), gone
    exponents = part.exponents(head, rows, columns)
    if all_seen is None:
        exponents[~part.seen(head, rows, columns)] = -np.inf
    largest = fold(exponents)
    return part.of_exponents(head, largest), np.isneginf(largest)
