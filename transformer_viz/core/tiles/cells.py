"""Masks and biases of a map, in memory linear in its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

#: Meaning of a bias table's columns: a distance ``key - query``, a key, or a cell.
DISTANCE, KEY, CELL = "distance", "key", "cell"


#: Rows of a map: a range, or an array of row numbers.
Rows = slice | np.ndarray


def numbered(rows: Rows) -> np.ndarray:
    """Return the row numbers."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


class Mask(Protocol):
    """Visible keys of each row of a map, cell by cell; implemented by `Visible`."""

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray: ...
    def uniform(self, head: int, rows: Rows, columns: slice) -> bool | None: ...


@dataclass(frozen=True, eq=False)
class Visible:
    """Visible keys of each row of a map.

    Attributes:
        edges: Keys at which a row changes between hidden and visible, int32, row by row. Each row
            is hidden before its first edge.
        ends: End of each row in ``edges``, int64 ``[head, row]``. A single head stands for all.
    """

    edges: np.ndarray
    ends: np.ndarray

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the visible cells, bool ``[row, column]``."""
        edges, counts = self._of_rows(head, rows)
        wide = columns.stop - columns.start
        if counts.max(initial=0) <= 2:  # one run of keys per row, as in most masks
            begins, stops = _runs(edges - columns.start, counts, wide)
            places = np.arange(wide)
            runs: np.ndarray = (places >= begins[:, None]) & (places < stops[:, None])
            return runs
        place = np.repeat(np.arange(len(counts)), counts)
        turns = np.zeros((len(counts), wide + 1), np.int32)
        np.add.at(turns, (place, np.clip(edges - columns.start, 0, wide)), 1)
        seen: np.ndarray = np.cumsum(turns[:, :wide], axis=1) % 2 == 1
        return seen

    def uniform(self, head: int, rows: Rows, columns: slice) -> bool | None:
        """Return True if all cells are visible, False if none is, None if mixed or unknown."""
        edges, counts = self._of_rows(head, rows)
        if counts.max(initial=0) > 2:
            return None
        wide = columns.stop - columns.start
        begins, stops = _runs(edges - columns.start, counts, wide)
        if bool(((begins >= wide) | (stops <= 0)).all()):
            return False
        return True if bool(((begins <= 0) & (stops >= wide)).all()) else None

    def columns(self, keys: int) -> np.ndarray:
        """Return the keys visible to any row of the first head, bool ``[key]``."""
        edges, counts = self._of_rows(0, slice(0, self.ends.shape[1]))
        within = np.arange(len(edges)) - np.repeat(np.cumsum(counts) - counts, counts)
        turns = np.bincount(edges, np.where(within % 2, -1, 1), keys + 1)[:keys]
        seen: np.ndarray = np.cumsum(turns) > 0
        return seen

    def of_head(self, head: int) -> Visible:
        """Return the mask of one head."""
        edges, counts = self._of_rows(head, slice(0, self.ends.shape[1]))
        return Visible(edges, np.cumsum(counts)[None])

    def _of_rows(self, head: int, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of some rows, concatenated, and the number of edges per row."""
        head = head if len(self.ends) > 1 else 0
        flat = self.ends.reshape(-1)
        first = head * self.ends.shape[1]
        if isinstance(rows, slice):
            begin = int(flat[first + rows.start - 1]) if first + rows.start else 0
            counts = np.diff(flat[first + rows.start : first + rows.stop], prepend=begin)
            return self.edges[begin : begin + int(counts.sum())], counts
        places = first + rows
        begins = np.where(places > 0, flat[places - 1], 0)
        counts = flat[places] - begins
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.edges[np.repeat(begins, counts) + within], counts


def _runs(edges: np.ndarray, counts: np.ndarray, wide: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first visible key and the end of visibility for each row.

    Rows have no edge, one (visible from there), or two (visible between them).
    """
    starts = np.cumsum(counts) - counts
    begins, stops = np.full(len(counts), wide), np.full(len(counts), wide)
    begins[counts > 0] = edges[starts[counts > 0]]
    stops[counts > 1] = edges[starts[counts > 1] + 1]
    return begins, stops


@dataclass(frozen=True, eq=False)
class Bias:
    """Additive bias of the scores of a map, per head; a single head stands for all.

    ``table`` is ``[head, distance]`` (``key - query``, from ``1 - queries``), ``[head, key]`` or
    ``[head, query, key]``, according to ``kind``.
    """

    kind: str
    table: np.ndarray
    queries: int

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the bias, ``[row, column]`` or ``[column]``."""
        mine = self.table[head if len(self.table) > 1 else 0]
        if self.kind == KEY:
            return np.asarray(mine[columns])
        if self.kind == CELL:
            return np.asarray(mine[rows][:, columns])
        query = numbered(rows)[:, None]
        return np.asarray(mine[np.arange(columns.start, columns.stop) - query + self.queries - 1])
