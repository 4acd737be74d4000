"""What a tile is computed from: queries and keys with each row's denominator, or a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cells import Bias, Mask, Rows, numbered


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
    ``sinks``: a row's denominator holds more than its keys.
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
        """The scores after all edits and before masks, float64 ``[row, column]``."""
        group = self.heads // len(self.k)
        q = self.q[head, rows].astype(np.float64) * self.scale
        sharpness = float(self.sharpness[head])
        if self.cap is None and self.bias is None:  # one pass over the cells less
            q, sharpness = q * sharpness, 1.0
        scores = q @ self.k[head // group, columns].astype(np.float64).T
        if self.cap is not None:
            scores = self.cap * np.tanh(scores / self.cap)
        if self.bias is not None:
            scores = scores + self.bias.tile(head, rows, columns)
        return np.asarray(scores if sharpness == 1 else scores * sharpness)

    def exponents(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """The logarithms of the weights where a key is seen, float64 ``[row, column]``, writable;
        above 0 only where it is hidden."""
        scores = self.scores(head, rows, columns)
        scores -= self.log_sum[head, rows, None]
        return scores

    def of_exponents(self, head: int, exponents: np.ndarray) -> np.ndarray:
        """The weights of exponents of seen keys, or of -inf, in any order; float64."""
        # Only hidden cells lie above 0, and could outgrow the exponential.
        weights = np.exp(np.minimum(exponents, 0.0))
        gain = float(self.gain[head])
        return np.asarray(weights if gain == 1 else weights * gain)

    def keeps_order(self, head: int) -> bool:
        """Whether a larger exponent is a larger weight in every row of a head."""
        return self.blank is None and self.only is None and float(self.gain[head]) >= 0

    def seen(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Which keys may be looked at, bool ``[row, column]``."""
        if self.visible is None:
            return np.ones((len(numbered(rows)), columns.stop - columns.start), bool)
        return self.visible.tile(head, rows, columns)

    def uniform(self, head: int, rows: Rows, columns: slice) -> bool | None:
        """Whether all of some keys may be looked at, or none; None where it is not told at once."""
        return True if self.visible is None else self.visible.uniform(head, rows, columns)

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """The weights, float64 ``[row, column]``; numbers of rows and heads are this part's own."""
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

    def seen(self, head: int, rows: slice, columns: slice) -> np.ndarray:
        """Which keys may be looked at, bool ``[row, column]``: without scores, those that are."""
        return np.asarray(self.weights[head, rows, columns] != 0)
