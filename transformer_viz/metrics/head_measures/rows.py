"""The conventions of every head metric in one place: which rows are asked, which keys count.

A metric averages only rows where its question can be answered with yes and with no: the query is a
word (no padding, no special token) and may look at two keys at least. So row 0 under a causal mask
is never asked. In the view ``raw`` weights stay as they are. In the view ``content`` special keys
are left out and each row is divided by what remains; a row that leaves less than `LEAST_MASS` to
words is a *sink row* and is not asked. Statistics are float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

LEAST_MASS = 0.05  # of a row's weight on words, in the view "content"
TIE = 1e-6  # weights that differ by less are equal
GRID = 2.0**30  # rows are rounded to 2^-30, so that float64 adds 8 million of them exactly
VIEWS = ("content", "raw")


class Tally(NamedTuple):
    """What a metric leaves of some rows: sum, count and sum of squares, ``[head, ...]`` float64.

    Tallies of parts add up to that of the whole, bit by bit, in any order.
    """

    total: np.ndarray
    rows: np.ndarray
    squares: np.ndarray

    def plus(self, other: Tally) -> Tally:
        """The tally of both sets of rows."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def mean(self) -> np.ndarray:
        """The mean over rows; NaN where none could be asked."""
        known = self.rows > 0
        return np.where(known, self.total / np.where(known, self.rows, 1.0), np.nan)


def tally(values: np.ndarray, rows: np.ndarray) -> Tally:
    """The tally of one value a row over those rows that are asked, both ``[head, row]``."""
    asked = np.broadcast_to(rows, values.shape)
    kept = np.round(np.where(asked, values, 0.0) * GRID) / GRID
    return Tally(
        kept.sum(-1), asked.sum(-1).astype(np.float64), (np.round(kept**2 * GRID) / GRID).sum(-1)
    )


@dataclass(frozen=True, eq=False)
class HeadRows:
    """One block's attention in one sentence, and all that a metric may ask about it.

    ``weights`` ``[head, query, key]`` after softmax and mask; ``allowed`` bool ``[query, key]``
    where the mask lets a query look; ``query_special`` and ``key_special`` bool; ``key_ids`` int,
    None without a vocabulary. ``real`` bool ``[query]``: no padding.

    What weights alone cannot tell, where somebody computed it: ``values`` ``[head, key, d_model]``,
    each key's values through the head's output projection; ``direct`` ``[head, query,
    vocabulary]``, the head's own logits under the run's frozen final norm; ``ov`` ``[head]``, from
    `values.ov_values`.
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
        """The first key that is no padding."""
        return int(self.allowed.any(0).argmax())

    @cached_property
    def steps(self) -> np.ndarray:
        """``key - query`` in tokens, ``[query, key]``."""
        queries, keys = self.allowed.shape
        return np.arange(keys) - np.arange(queries)[:, None]

    @cached_property
    def causal(self) -> bool:
        """Whether no word may look ahead."""
        return not self.cross and not self.allowed[self.steps > 0].any()

    @cached_property
    def spoken(self) -> np.ndarray:
        """Query rows that are no padding, ``[query]``."""
        real = np.ones(len(self.allowed), bool) if self.real is None else self.real
        return real if self.cross else real & self.allowed.any(0)

    @cached_property
    def content(self) -> np.ndarray:
        """Keys that are words: not special, and seen by somebody; ``[key]``."""
        return ~self.key_special & self.allowed.any(0)

    @cached_property
    def ends(self) -> np.ndarray:
        """Special keys behind the first key, as EOS and SEP; ``[key]``."""
        return self.key_special & (np.arange(len(self.key_special)) != self.first)

    @cached_property
    def keys(self) -> np.ndarray:
        """K(i) of this view, bool ``[query, key]``."""
        return self.allowed & self.content if self.view == "content" else self.allowed

    @cached_property
    def count(self) -> np.ndarray:
        """n_i, how many keys each row may look at in this view, ``[query]``."""
        return self.keys.sum(-1)

    @cached_property
    def mass(self) -> np.ndarray:
        """The weight that each row leaves to the keys of this view, ``[head, query]``."""
        return np.where(self.keys, self.weights, 0.0).sum(-1, dtype=np.float64)

    @cached_property
    def viewed(self) -> np.ndarray:
        """The weights A' of this view, float64 ``[head, query, key]``."""
        weights = np.where(self.keys, self.weights, 0.0).astype(np.float64)
        if self.view == "raw":
            return weights
        return weights / np.where(self.heeded, self.mass, 1.0)[..., None]

    @cached_property
    def heeded(self) -> np.ndarray:
        """Rows that are no sink rows, ``[head, query]``."""
        return self.mass >= LEAST_MASS if self.view == "content" else np.isfinite(self.mass)

    @cached_property
    def asked(self) -> np.ndarray:
        """Rows of words with a choice, whatever they look at, ``[head, query]``."""
        rows = self.spoken & ~self.query_special & (self.allowed.sum(-1) >= 2)
        return rows & np.isfinite(self.weights).all(-1)


def nothing(r: HeadRows) -> Tally:
    """Return the tally of a question that cannot be put to this block."""
    return Tally(*(np.zeros(len(r.weights)) for _ in range(3)))
