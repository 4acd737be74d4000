"""Largest weights of a map far from its diagonal, found in blocks, never in the whole matrix.

Exponents of all rows are logarithms of weights and can be compared directly. In each block only
cells above the smallest value found so far are considered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .parts import Matrix, Part

ROWS, COLUMNS = 256, 1024  # cells processed together, to fit in a CPU cache

Tell = Callable[[int, int], None]


def strongest(
    parts: Sequence[Part | Matrix],
    head: int,
    count: int,
    distance: int,
    first: int,
    once: bool,
    on_progress: Tell,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of a head's largest weights at least ``distance`` from the diagonal.

    Args:
        parts: Parts of a map whose rows and columns are tokens of one text.
        head: Head, from 0.
        count: Maximum number of cells.
        distance: Smallest difference between a cell's row and column.
        first: First column to include.
        once: True to count each column once, with its largest weight.
        on_progress: Called with the rows done and all rows.

    Returns:
        Rows and columns, int64, at most ``count``, in no order. Hidden cells and cells of weight 0
        are excluded.
    """
    best = _Best(count, once)
    mine = [part for part in parts if 0 <= head - part.first_head < part.heads]
    total, done = sum(part.rows for part in mine), 0
    for part in mine:
        for top in range(0, part.rows, ROWS):
            on_progress(done, total)
            down = slice(top, min(top + ROWS, part.rows))
            done += down.stop - top
            for left in range(first, part.keys, COLUMNS):
                across = slice(left, min(left + COLUMNS, part.keys))
                found = _far(part, head - part.first_head, down, across, distance)
                if found is None:
                    continue
                best.take(found, top + part.first_row, left)
    on_progress(total, total)
    return best.rows, best.columns


class _Best:
    """The largest cells found so far."""

    def __init__(self, count: int, once: bool) -> None:
        self.count = count
        self.once = once
        self.sizes = np.empty(0)
        self.rows = self.columns = np.empty(0, np.int64)

    def take(self, sizes: np.ndarray, top: int, left: int) -> None:
        """Add the cells of a block with first row ``top`` and first column ``left``."""
        least = self.sizes.min() if len(self.sizes) == self.count else -np.inf
        if self.once:
            column = np.flatnonzero(sizes.max(axis=0) > least)
            row = sizes[:, column].argmax(axis=0)
        else:
            row, column = np.divmod(np.flatnonzero(sizes > least), sizes.shape[1])
        if not len(row):
            return
        found = np.concatenate([self.sizes, sizes[row, column]])
        rows = np.concatenate([self.rows, row + top])
        columns = np.concatenate([self.columns, column + left])
        order = np.argsort(-found, kind="stable") if self.once else None
        if order is not None:  # the largest cell of each column
            order = order[np.sort(np.unique(columns[order], return_index=True)[1])]
            found, rows, columns = found[order], rows[order], columns[order]
        if len(found) > self.count:
            kept = np.argpartition(found, -self.count)[-self.count :]
            found, rows, columns = found[kept], rows[kept], columns[kept]
        self.sizes, self.rows, self.columns = found, rows, columns


def _far(
    part: Part | Matrix, head: int, rows: slice, columns: slice, distance: int
) -> np.ndarray | None:
    """Return the logarithms of a block's absolute weights, or None if no cell counts.

    Cells that do not count are -inf.
    """
    top, bottom = rows.start + part.first_row, rows.stop - 1 + part.first_row
    if max(bottom - columns.start, columns.stop - 1 - top) < distance:
        return None
    counts = part.seen(head, rows, columns)
    if top - columns.stop < distance - 1 and columns.start - bottom < distance:  # only some cells
        places = np.arange(top, bottom + 1)[:, None]
        counts = counts & (abs(places - np.arange(columns.start, columns.stop)) >= distance)
    if not counts.any():
        return None
    sizes = _sizes(part, head, rows, columns)
    if not counts.all():
        sizes[~counts] = -np.inf
    return sizes


def _sizes(part: Part | Matrix, head: int, rows: slice, columns: slice) -> np.ndarray:
    """Return the logarithms of absolute weights, float64 ``[row, column]``; writable."""
    if isinstance(part, Part) and part.keeps_order(head):
        gain = float(part.gain[head])
        exponents = part.exponents(head, rows, columns)
        if gain != 1:
            exponents += np.log(gain) if gain > 0 else -np.inf
        return exponents
    sizes = np.abs(part.tile(head, rows, columns)).astype(np.float64)
    none = np.full(sizes.shape, -np.inf)
    return np.asarray(np.log(sizes, where=sizes > 0, out=none))
