"""Any rectangle of an attention map from queries, keys, and the denominators of its softmax.

The softmax's denominator is one number a row. With its logarithm L at hand, the weight of a cell is
``exp(score - L)``: no other cell is needed (the same that makes fused attention possible; Milakov
and Gimelshein 2018, Rabe and Staats 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..sites import Site
from .cells import Bias, Visible

LONG = 1024  # tokens; of longer texts tiles are kept where nobody says what to keep
MOST_CELLS = 16 * 1024**2  # of a tile, and of what is built whole on demand: 64 MB
BLOCK = 1024**2  # cells at once where the whole of a map is pooled


@dataclass(frozen=True, eq=False)
class Part:
    """Heads and rows of one map that a single softmax made, mostly all of them.

    ``q`` ``[head, query, width]`` and ``k`` ``[key head, key, width]`` float32 are as the model
    multiplied them (rotated, where it rotates); several heads in a row share a key head where there
    are fewer. Scores are ``sharpness * (cap(scale * q k) + bias)``, where ``cap`` is ``c tanh(x /
    c)`` if there is one and ``sharpness`` ``[head]`` is 1 / temperature, or 0 of a head that looks
    at all keys alike. ``log_sum`` ``[head, query]`` float64 is the logarithm of each row's
    denominator, sinks included; ``gain`` ``[head]`` multiplies the weights. ``visible`` None: every
    cell. ``blank`` ``[head, query]`` is the weight of each cell of a row that sees no key, ``only``
    ``[head, query]`` the one key of a row at temperature 0, -1 elsewhere; None where there is none.
    """

    q: np.ndarray
    k: np.ndarray
    log_sum: np.ndarray
    sharpness: np.ndarray
    gain: np.ndarray
    scale: float
    cap: float | None = None
    bias: Bias | None = None
    visible: Visible | None = None
    blank: np.ndarray | None = None
    only: np.ndarray | None = None
    first_head: int = 0
    first_row: int = 0

    @property
    def heads(self) -> int:
        return len(self.q)

    @property
    def rows(self) -> int:
        return self.q.shape[1]

    @property
    def keys(self) -> int:
        return self.k.shape[1]

    def scores(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """The scores after all edits and before masks, float64 ``[row, column]``."""
        group = self.heads // len(self.k)
        q = self.q[head, rows].astype(np.float64)
        scores = self.scale * (q @ self.k[head // group, columns].astype(np.float64).T)
        if self.cap is not None:
            scores = self.cap * np.tanh(scores / self.cap)
        if self.bias is not None:
            scores = scores + self.bias.tile(head, rows, columns)
        return np.asarray(scores * float(self.sharpness[head]))

    def tile(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """The weights, float64 ``[row, column]``; numbers of rows and heads are this part's own."""
        scores = self.scores(head, rows, columns)
        # Only hidden cells lie above 0, and could outgrow the exponential.
        weights = np.exp(np.minimum(scores - self.log_sum[head, rows, None], 0.0))
        if self.visible is not None:
            weights = np.where(self.visible.tile(head, rows, columns), weights, 0.0)
        if self.blank is not None:
            weights = weights + self.blank[head, rows, None]
        if self.only is not None:
            only = self.only[head, rows, None]
            best = np.arange(columns.start, columns.stop) == only
            weights = np.where(only >= 0, best, weights)
        gain = float(self.gain[head])
        return np.asarray(weights if gain == 1 else weights * gain)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A block whose weights ``[head, query, key]`` are at hand."""

    weights: np.ndarray
    first_head: int = 0
    first_row: int = 0

    @property
    def heads(self) -> int:
        return len(self.weights)

    @property
    def rows(self) -> int:
        return self.weights.shape[1]

    @property
    def keys(self) -> int:
        return self.weights.shape[2]

    def tile(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """The weights ``[row, column]``."""
        return np.asarray(self.weights[head, rows, columns])


@dataclass(frozen=True, eq=False)
class Tiles:
    """One block's attention maps of any length; ``query`` and ``key`` name the sentences of rows
    and columns as in an `Attention`."""

    site: Site
    query: str
    key: str
    parts: tuple[Part | Matrix, ...]

    @property
    def heads(self) -> int:
        return max(part.first_head + part.heads for part in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns a map has."""
        rows = max(part.first_row + part.rows for part in self.parts)
        return rows, max(part.keys for part in self.parts)

    def tile(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """The weights of some rows and columns of a head, float32 ``[row, column]``.

        Raises:
            ValueError: a head, rows or columns that the map does not have, or more cells than are
                built at once; says what there is.
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
        """All maps of the block, float32 ``[head, query, key]``."""
        out = np.stack([self.tile(head, slice(None), slice(None)) for head in range(self.heads)])
        out.setflags(write=False)
        return out

    def level(self, head: int, cells: int) -> np.ndarray:
        """The whole of a map in at most ``cells`` x ``cells``, each the largest weight under it.

        The step is the same from cell to cell; the last ones may stand for fewer rows or columns.

        Raises:
            ValueError: a head that is not there, or less than one cell.
        """
        if cells < 1:
            raise ValueError(f"A level needs cells of 1 or more; got {cells}.")
        self.within(head, slice(None), slice(None))
        queries, keys = self.shape
        high, wide = math.ceil(queries / cells), math.ceil(keys / cells)
        out = np.zeros((math.ceil(queries / high), math.ceil(keys / wide)), np.float32)
        for rows in steps(queries, max(1, BLOCK // keys)):
            found = self.tile(head, rows, slice(0, keys))
            wider = np.maximum.reduceat(found, np.arange(0, keys, wide), axis=1)
            place = np.arange(rows.start, rows.stop) // high
            np.maximum.at(out, place, wider)
        out.setflags(write=False)
        return out

    def within(self, head: int, rows: slice, columns: slice) -> tuple[slice, slice]:
        """Rows and columns with a begin and an end.

        Raises:
            ValueError: they are not all on the map.
        """
        if not 0 <= head < self.heads:
            raise ValueError(
                f"There is no head {head} in {self.site.map!r} layer {self.site.layer}; it has "
                f"{self.heads}, counted from 0."
            )
        queries, keys = self.shape
        return bounds("rows", rows, queries), bounds("columns", columns, keys)


def bounds(name: str, given: slice, size: int) -> slice:
    """A slice of an axis, with a begin and an end.

    Raises:
        ValueError: it reaches outside of the axis, or has a step.
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
    """An axis in pieces of at most ``step``."""
    for first in range(0, size, step):
        yield slice(first, min(first + step, size))
