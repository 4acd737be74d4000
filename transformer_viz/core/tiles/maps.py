"""Any rectangle of an attention map from queries, keys, and the denominators of its softmax.

The denominator of the softmax is one number per row. With its logarithm L, the weight of a cell is
``exp(score - L)``, independent of other cells. Fused attention uses the same fact (Milakov and
Gimelshein 2018, Rabe and Staats 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..sites import Site
from .parts import Matrix, Part
from .pooling import pooled
from .strongest import Tell, strongest

LONG = 1024  # tokens; longer texts keep tiles by default
MOST_CELLS = 16 * 1024**2  # of a tile, or of a matrix built on demand: 64 MB


@dataclass(frozen=True, eq=False)
class Tiles:
    """Attention maps of one block, of any length.

    ``query`` and ``key`` name the sentences of rows and columns as in an `Attention`.
    """

    site: Site
    query: str
    key: str
    parts: tuple[Part | Matrix, ...]

    @property
    def heads(self) -> int:
        return max(part.first_head + part.heads for part in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns of a map."""
        rows = max(part.first_row + part.rows for part in self.parts)
        return rows, max(part.keys for part in self.parts)

    def tile(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """Return the weights of some rows and columns of a head, float32 ``[row, column]``.

        Raises:
            ValueError: A head, rows or columns outside of the map, or more cells than are built in
                one call. The message gives the valid range.
        """
        rows, columns = self.within(head, rows, columns)
        high, wide = rows.stop - rows.start, columns.stop - columns.start
        if high * wide > MOST_CELLS:
            raise ValueError(
                f"A tile of {high:,} x {wide:,} cells takes {4 * high * wide / 1e6:,.0f} MB; at "
                f"most {MOST_CELLS:,} cells are built at once. Name fewer rows= or columns=, or "
                "see the whole in small with level."
            )
        out = np.zeros((high, wide), np.float32)
        for part in self.parts:
            mine = head - part.first_head
            first = max(rows.start, part.first_row)
            last = min(rows.stop, part.first_row + part.rows)
            end = min(columns.stop, part.keys)
            if not 0 <= mine < part.heads or first >= last or columns.start >= end:
                continue
            own = slice(first - part.first_row, last - part.first_row)
            found = part.tile(mine, own, slice(columns.start, end))
            out[first - rows.start : last - rows.start, : end - columns.start] = found
        out.setflags(write=False)
        return out

    def whole(self) -> np.ndarray:
        """Return all maps of the block, float32 ``[head, query, key]``."""
        out = np.stack([self.tile(head, slice(None), slice(None)) for head in range(self.heads)])
        out.setflags(write=False)
        return out

    def level(self, head: int, cells: int) -> np.ndarray:
        """Return a whole map in at most ``cells`` x ``cells``, each the largest weight in it.

        All cells have the same size, except that the last ones may hold fewer rows or columns.

        Raises:
            ValueError: An unknown head, or less than one cell.
        """
        if cells < 1:
            raise ValueError(f"A level needs cells of 1 or more; got {cells}.")
        high, wide = (math.ceil(size / cells) for size in self.shape)
        return self.pooled(head, slice(None), slice(None), high, wide)[0]

    def pooled(
        self, head: int, rows: slice, columns: slice, high: int, wide: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns of a head's map, in cells of ``high`` rows and ``wide`` columns.

        Returns:
            The largest weight of each cell, float32 ``[cell row, cell column]``, and True for cells
            without visible keys, bool of the same shape; both read-only. The last cells may stand
            for fewer rows or columns.

        Raises:
            ValueError: A head, rows or columns outside of the map, or empty cells.
        """
        if min(high, wide) < 1:
            raise ValueError(f"A cell has 1 row and 1 column or more; got {high} x {wide}.")
        return pooled(self.parts, head, *self.within(head, rows, columns), high, wide)

    def far(
        self, head: int, distance: int, count: int, first: int, once: bool, on_progress: Tell
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the cells of largest weight at least ``distance`` from the diagonal.

        Args:
            head: Head, from 0.
            distance: Tokens, 1 or more.
            count: Maximum number of cells, 1 or more.
            first: First column to include.
            once: True to count each column once, with its largest weight.
            on_progress: Called with the rows done and all rows.

        Returns:
            Rows, columns and weights (float32), the largest first. Hidden cells and weights of 0
            are excluded, so there may be fewer.

        Raises:
            ValueError: An unknown head, rows and columns of different texts, or a distance or a
                count below 1. The message names it.
        """
        self.within(head, slice(None), slice(None))
        if self.query != self.key:
            raise ValueError(
                f"A distance is counted within one text; the rows of {self.site.map!r} are words "
                f"of the {self.query} and its columns words of the {self.key}."
            )
        if min(distance, count) < 1:
            raise ValueError(
                f"distance and count are 1 or more; got distance={distance}, count={count}."
            )
        rows, columns = strongest(self.parts, head, count, distance, first, once, on_progress)
        cells = zip(rows.tolist(), columns.tolist(), strict=True)
        sizes = [self.tile(head, slice(r, r + 1), slice(c, c + 1))[0, 0] for r, c in cells]
        weights = np.array(sizes, np.float32)
        order = np.lexsort((columns, rows, -abs(weights)))
        order = order[weights[order] != 0]
        return rows[order], columns[order], weights[order]

    def within(self, head: int, rows: slice, columns: slice) -> tuple[slice, slice]:
        """Return rows and columns with start and stop filled in.

        Raises:
            ValueError: An unknown head, or rows or columns outside of the map.
        """
        if not 0 <= head < self.heads:
            raise ValueError(
                f"There is no head {head} in {self.site.map!r} layer {self.site.layer}; it has "
                f"{self.heads}, counted from 0."
            )
        queries, keys = self.shape
        return bounds("rows", rows, queries), bounds("columns", columns, keys)


def bounds(name: str, given: slice, size: int) -> slice:
    """Return a slice of an axis with start and stop filled in.

    Raises:
        ValueError: The slice exceeds the axis, is empty, or has a step.
    """
    begin = 0 if given.start is None else given.start
    end = size if given.stop is None else given.stop
    if given.step not in (None, 1) or not 0 <= begin < end <= size:
        raise ValueError(
            f"The map has {size:,} {name}, counted from 0; {name}={given!r} is not a part of them. "
            f"Give a slice within slice(0, {size}), without a step."
        )
    return slice(int(begin), int(end))


def steps(size: int, step: int) -> Iterator[slice]:
    """Yield slices of at most ``step`` that cover an axis."""
    for first in range(0, size, step):
        yield slice(first, min(first + step, size))
