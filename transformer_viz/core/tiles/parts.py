"""Inputs of a tile: queries and keys with each row's denominator, or a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cells import Bias, Mask, Rows, numbered


@dataclass(frozen=True, eq=False)
class Part:
    """Heads and rows of a map from a single softmax, usually all of them.

    Scores are ``sharpness * (cap(scale * q k) + bias)``, where ``cap(x)`` is ``c tanh(x / c)``, if
    set. None for an optional array means that no cell or row needs it.

    Attributes:
        q, k: ``[head, query, width]`` and ``[key head, key, width]`` float32 as the model
            multiplied them (rotated, if it rotates). Consecutive heads share a key head if there
            are fewer.
        log_sum: Logarithm of each row's denominator, ``[head, query]`` float64, sinks included.
        sharpness: ``[head]``: 1 / temperature, or 0 for a uniform head.
        gain: ``[head]``, factor of the weights.
        visible: Mask; None if every cell is visible.
        blank: ``[head, query]``, weight of each cell of a row without visible keys.
        only: ``[head, query]``, the single key of a row at temperature 0; -1 elsewhere.
        sinks: True if a row's denominator includes more than its keys.
    """

    q: np.ndarray
    k: np.ndarray
    log_sum: np.ndarray
    sharpness: np.ndarray
    gain: np.ndarray
    scale: float
    cap: float | None = None
    bias: Bias | None = None
    visible: Mask | None = None
    blank: np.ndarray | None = None
    only: np.ndarray | None = None
    first_head: int = 0
    first_row: int = 0
    sinks: bool = False

    @property
    def heads(self) -> int:
        return len(self.q)

    @property
    def rows(self) -> int:
        return self.q.shape[1]

    @property
    def keys(self) -> int:
        return self.k.shape[1]

    def scores(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the scores after all edits and before masks, float64 ``[row, column]``."""
        group = self.heads // len(self.k)
        q = self.q[head, rows].astype(np.float64) * self.scale
        sharpness = float(self.sharpness[head])
        if self.cap is None and self.bias is None:  # saves a pass over the cells
            q, sharpness = q * sharpness, 1.0
        scores = q @ self.k[head // group, columns].astype(np.float64).T
        if self.cap is not None:
            scores = self.cap * np.tanh(scores / self.cap)
        if self.bias is not None:
            scores = scores + self.bias.tile(head, rows, columns)
        return np.asarray(scores if sharpness == 1 else scores * sharpness)

    def exponents(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the logarithms of weights of visible keys, float64 ``[row, column]``, writable.

        Only hidden keys have values above 0.
        """
        scores = self.scores(head, rows, columns)
        scores -= self.log_sum[head, rows, None]
        return scores

    def of_exponents(self, head: int, exponents: np.ndarray) -> np.ndarray:
        """Return the weights of exponents of visible keys, or of -inf, in any order; float64."""
        # Only hidden cells are above 0, and could overflow the exponential.
        weights = np.exp(np.minimum(exponents, 0.0))
        gain = float(self.gain[head])
        return np.asarray(weights if gain == 1 else weights * gain)

    def keeps_order(self, head: int) -> bool:
        """Return True if a larger exponent gives a larger weight in every row of a head."""
        return self.blank is None and self.only is None and float(self.gain[head]) >= 0

    def seen(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the visible keys, bool ``[row, column]``."""
        if self.visible is None:
            return np.ones((len(numbered(rows)), columns.stop - columns.start), bool)
        return self.visible.tile(head, rows, columns)

    def uniform(self, head: int, rows: Rows, columns: slice) -> bool | None:
        """Return True if all cells are visible, False if none is, None if mixed or unknown."""
        return True if self.visible is None else self.visible.uniform(head, rows, columns)

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the weights, float64 ``[row, column]``; rows and heads count within this part."""
        weights = np.exp(np.minimum(self.exponents(head, rows, columns), 0.0))
        if self.visible is not None:
            weights = np.where(self.seen(head, rows, columns), weights, 0.0)
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
    """A block whose weights ``[head, query, key]`` are stored."""

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
        """Return the weights ``[row, column]``."""
        return np.asarray(self.weights[head, rows, columns])

    def seen(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """Return the visible keys, bool ``[row, column]``: without scores, nonzero weights."""
        return np.asarray(self.weights[head, rows, columns] != 0)
