"""What every head metric returns: sum, count and sum of squares, which merge without error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GRID = 2.0**24  # values are kept as multiples of 1/GRID: float64 then adds 5e8 of them exactly


@dataclass(frozen=True, eq=False)
class Moments:
    """Sum, count and sum of squares of a metric's values, ``[head]`` or ``[head, offset]`` each.

    Values are rounded to 2^-24 before they are added, so that sums are the same bits however a
    corpus is cut and in whatever order its parts are merged.
    """

    sum: np.ndarray
    count: np.ndarray
    squares: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.sum + other.sum, self.count + other.count, self.squares + other.squares)

    @property
    def mean(self) -> np.ndarray:
        """The mean; NaN, which is no value, where nothing was counted."""
        return ratio(self.sum, self.count)


def tally(values: np.ndarray, eligible: np.ndarray) -> Moments:
    """Add up values ``[head, row, ...]`` over the rows that are eligible (the same shape, or one
    that broadcasts to it); gives ``[head, ...]``."""
    values, eligible = np.broadcast_arrays(values, eligible)
    kept = np.rint(np.where(eligible, values, 0.0) * GRID) / GRID
    squares = np.rint(kept * kept * GRID) / GRID
    return Moments(kept.sum(1), eligible.sum(1), squares.sum(1))


def nothing(shape: tuple[int, ...]) -> Moments:
    """No value for any head: the question does not arise."""
    return Moments(np.zeros(shape), np.zeros(shape, dtype=np.int64), np.zeros(shape))


def ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """``total / count``, NaN where the count is 0."""
    out = np.full(np.broadcast_shapes(np.shape(total), np.shape(count)), np.nan)
    return np.divide(total, count, out=out, where=np.asarray(count) > 0)
