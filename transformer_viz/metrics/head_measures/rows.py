"""Conventions of all head measures: rows that count, keys that count.

A measure averages only rows in which it can be high or low: the query is a word (no padding, no
special token) and may look at two or more keys. So row 0 under a causal mask never counts. In the
view ``raw`` weights are unchanged. In the view ``content`` special keys are left out and each row
is renormalized. A row with less than `LEAST_MASS` on words is a *sink row* and does not count.
Statistics are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

LEAST_MASS = 0.05  # minimum weight on words of a row, in the view "content"
TIE = 1e-6  # smaller differences of weights are ties
GRID = 2.0**30  # rows are rounded to 2^-30, so that float64 adds 8 million of them exactly
VIEWS = ("content", "raw")


class Tally(NamedTuple):
    """Sum, count and sum of squares of a measure over rows, ``[head, ...]`` float64.

    Tallies of parts add up exactly to that of the whole, in any order.
    """

    total: np.ndarray
    rows: np.ndarray
    squares: np.ndarray

    def plus(self, other: Tally) -> Tally:
        """Return the tally of both sets of rows."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def mean(self) -> np.ndarray:
        """Mean over rows; NaN without rows."""
        known = self.rows > 0
        return np.where(known, self.total / np.where(known, self.rows, 1.0), np.nan)


def tally(values: np.ndarray, rows: np.ndarray) -> Tally:
    """Return the tally of one value per row over the selected rows, both ``[head, row]``."""
    asked = np.broadcast_to(rows, values.shape)
    kept = np.round(np.where(asked, values, 0.0) * GRID) / GRID
    return Tally(
        kept.sum(-1), asked.sum(-1).astype(np.float64), (np.round(kept**2 * GRID) / GRID).sum(-1)
    )


@dataclass(frozen=True, eq=False)
class HeadRows:
    """Attention of one block in one sentence, with all inputs of the measures.

    Attributes:
        weights: ``[head, query, key]`` after softmax and mask.
        allowed: Bool ``[query, key]``, True where the mask lets a query look.
        query_special: Bool ``[query]``.
        key_special: Bool ``[key]``.
        key_ids: Int ``[key]``; None without a vocabulary.
        cross: True for cross-attention.
        view: ``content`` or ``raw``.
        real: Bool ``[query]``, True if not padding.
        values: ``[head, key, d_model]``, each key's values through the head's output projection, if
            computed.
        direct: ``[head, query, vocabulary]``, the head's own logits under the run's frozen final
            norm, if computed.
        ov: ``[head]``, from `values.ov_values`, if computed.
    """

    weights: np.ndarray
    allowed: np.ndarray
    query_special: np.ndarray
    key_special: np.ndarray
    key_ids: np.ndarray | None = None
    cross: bool = False
    view: str = "content"
    real: np.ndarray | None = None
    values: np.ndarray | None = None
    direct: np.ndarray | None = None
    ov: np.ndarray | None = None

    @cached_property
    def first(self) -> int:
        """First key that is not padding."""
        return int(self.allowed.any(0).argmax())

    @cached_property
    def steps(self) -> np.ndarray:
        """``key - query`` in tokens, ``[query, key]``."""
        queries, keys = self.allowed.shape
        return np.arange(keys) - np.arange(queries)[:, None]

    @cached_property
    def causal(self) -> bool:
        """True if no token may look ahead."""
        return not self.cross and not self.allowed[self.steps > 0].any()

    @cached_property
    def spoken(self) -> np.ndarray:
        """Query rows that are not padding, ``[query]``."""
        real = np.ones(len(self.allowed), bool) if self.real is None else self.real
        return real if self.cross else real & self.allowed.any(0)

    @cached_property
    def content(self) -> np.ndarray:
        """Keys that are words: not special, and visible to some row; ``[key]``."""
        return ~self.key_special & self.allowed.any(0)

    @cached_property
    def ends(self) -> np.ndarray:
        """Special keys after the first key, such as EOS and SEP; ``[key]``."""
        return self.key_special & (np.arange(len(self.key_special)) != self.first)

    @cached_property
    def keys(self) -> np.ndarray:
        """K(i) of this view, bool ``[query, key]``."""
        return self.allowed & self.content if self.view == "content" else self.allowed

    @cached_property
    def count(self) -> np.ndarray:
        """n_i, the number of keys each row may look at in this view, ``[query]``."""
        return self.keys.sum(-1)

    @cached_property
    def mass(self) -> np.ndarray:
        """Weight of each row on the keys of this view, ``[head, query]``."""
        return np.where(self.keys, self.weights, 0.0).sum(-1, dtype=np.float64)

    @cached_property
    def viewed(self) -> np.ndarray:
        """Weights A' of this view, float64 ``[head, query, key]``."""
        weights = np.where(self.keys, self.weights, 0.0).astype(np.float64)
        if self.view == "raw":
            return weights
        return weights / np.where(self.heeded, self.mass, 1.0)[..., None]

    @cached_property
    def heeded(self) -> np.ndarray:
        """Rows that are not sink rows, ``[head, query]``."""
        return self.mass >= LEAST_MASS if self.view == "content" else np.isfinite(self.mass)

    @cached_property
    def asked(self) -> np.ndarray:
        """Rows of words with a choice, regardless of their weights, ``[head, query]``."""
        rows = self.spoken & ~self.query_special & (self.allowed.sum(-1) >= 2)
        return rows & np.isfinite(self.weights).all(-1)


def nothing(r: HeadRows) -> Tally:
    """Return the tally of a measure that is not defined for this block."""
    return Tally(*(np.zeros(len(r.weights)) for _ in range(3)))
