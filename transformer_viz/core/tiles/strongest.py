"""The largest weights of a map far from its diagonal, found in blocks, never in the whole matrix.

Exponents of all rows are logarithms of weights and can be compared as they are; of a block only
those cells are looked at that are larger than the smallest of those found so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .parts import Matrix, Part

ROWS, COLUMNS = 256, 1024  # cells that are looked at together: as many as a cache holds

Tell = Callable[[int, int], None]


def strongest(
    parts: Sequence[Part | Matrix],
    head: int,
    count: int,
    distance: int,
    first: int,
    tell: Tell = lambda done, of: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Where a head's weights of largest size stand, of those at least ``distance`` apart.

    Args:
        parts: of a map whose rows and columns are tokens of one text.
        head: counted from 0.
        count: how many are wanted.
        distance: the least difference of a cell's row and column.
        first: the first column that counts.
        tell: hears how many rows of how many were looked at.

    Returns:
        Rows and columns, int64, at most ``count`` of them, in no order. Cells that are hidden, or
        whose weight is 0, are not among them.
    """
    size, row, column = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
    mine = [part for part in parts if 0 <= head - part.first_head < part.heads]
    total, done = sum(part.rows for part in mine), 0
    for part in mine:
        for top in range(0, part.rows, ROWS):
            tell(done, total)
            down = slice(top, min(top + ROWS, part.rows))
            done += down.stop - top
            for left in range(first, part.keys, COLUMNS):
                across = slice(left, min(left + COLUMNS, part.keys))
                found = _far(part, head - part.first_head, down, across, distance)
                if found is None:
                    continue
                least = size.min() if len(size) == count else -np.inf
                near = np.flatnonzero(found > least)
                if not len(near):
                    continue
                r, c = np.divmod(near, across.stop - left)
                size = np.concatenate([size, found.reshape(-1)[near]])
                row = np.concatenate([row, r + top + part.first_row])
                column = np.concatenate([column, c + left])
                if len(size) > count:
                    kept = np.argpartition(size, -count)[-count:]
                    size, row, column = size[kept], row[kept], column[kept]
    tell(total, total)
    return row, column


def _far(
    part: Part | Matrix, head: int, rows: slice, columns: slice, distance: int
) -> np.ndarray | None:
    """Logarithms of the sizes of a block's weights, -inf where a cell does not count; None where
    none does."""
    top, bottom = rows.start + part.first_row, rows.stop - 1 + part.first_row
    if max(bottom - columns.start, columns.stop - 1 - top) < distance:
        return None
    counts = part.seen(head, rows, columns)
    if top - columns.stop < distance - 1 and columns.start - bottom < distance:  # not all of it
        places = np.arange(top, bottom + 1)[:, None]
        counts = counts & (abs(places - np.arange(columns.start, columns.stop)) >= distance)
    if not counts.any():
        return None
    sizes = _sizes(part, head, rows, columns)
    if not counts.all():
        sizes[~counts] = -np.inf
    return sizes


def _sizes(part: Part | Matrix, head: int, rows: slice, columns: slice) -> np.ndarray:
    """Logarithms of the sizes of weights, float64 ``[row, column]``, -inf of 0; writable."""
    if isinstance(part, Part) and part.keeps_order(head):
        gain = float(part.gain[head])
        exponents = part.exponents(head, rows, columns)
        if gain != 1:
            exponents += np.log(gain) if gain > 0 else -np.inf
        return exponents
    sizes = np.abs(part.tile(head, rows, columns)).astype(np.float64)
    none = np.full(sizes.shape, -np.inf)
    return np.asarray(np.log(sizes, where=sizes > 0, out=none))
