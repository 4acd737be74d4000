"""Masks and biases of a map, in space that grows with its length and not with its square."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: What the columns of a bias's table are: a distance ``key - query``, a key, or a cell.
DISTANCE, KEY, CELL = "distance", "key", "cell"


@dataclass(frozen=True, eq=False)
class Visible:
    """Which keys each row of a map sees.

    ``edges`` int32 are the keys at which a row changes between hidden and visible, row by row, each
    row hidden before its first; ``ends`` int64 ``[head, row]`` say where those of a row end. One
    head stands for all where there is only one.
    """

    edges: np.ndarray
    ends: np.ndarray

    def tile(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """The cells that are seen, bool ``[row, column]``."""
        head = head if len(self.ends) > 1 else 0
        flat = self.ends.reshape(-1)
        first, last = (head * self.ends.shape[1] + row for row in (rows.start, rows.stop))
        begin = int(flat[first - 1]) if first else 0
        ends = flat[first:last]
        counts = np.diff(ends, prepend=begin)
        edges = self.edges[begin : begin + int(counts.sum())]
        wide = columns.stop - columns.start
        if counts.max(initial=0) <= 2:  # one run of keys in each row, as of most masks
            return _runs(edges - columns.start, counts, wide)
        place = np.repeat(np.arange(last - first), counts)
        turns = np.zeros((last - first, wide + 1), np.int32)
        np.add.at(turns, (place, np.clip(edges - columns.start, 0, wide)), 1)
        seen: np.ndarray = np.cumsum(turns[:, :wide], axis=1) % 2 == 1
        return seen


def _runs(edges: np.ndarray, counts: np.ndarray, wide: int) -> np.ndarray:
    """Rows of no edge, of one (visible from there on), or of two (visible between them)."""
    starts = np.cumsum(counts) - counts
    begins, stops = np.full(len(counts), wide), np.full(len(counts), wide)
    begins[counts > 0] = edges[starts[counts > 0]]
    stops[counts > 1] = edges[starts[counts > 1] + 1]
    places = np.arange(wide)
    seen: np.ndarray = (places >= begins[:, None]) & (places < stops[:, None])
    return seen


@dataclass(frozen=True, eq=False)
class Bias:
    """What a model adds to the scores of a map, head by head; one head stands for all alike.

    ``table`` is ``[head, distance]`` (``key - query``, from ``1 - queries`` on), ``[head, key]`` or
    ``[head, query, key]``, as ``kind`` says.
    """

    kind: str
    table: np.ndarray
    queries: int

    def tile(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """What is added, ``[row, column]`` or ``[column]``."""
        mine = self.table[head if len(self.table) > 1 else 0]
        if self.kind == KEY:
            return np.asarray(mine[columns])
        if self.kind == CELL:
            return np.asarray(mine[rows, columns])
        query = np.arange(rows.start, rows.stop)[:, None]
        return np.asarray(mine[np.arange(columns.start, columns.stop) - query + self.queries - 1])
