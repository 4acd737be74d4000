"""Attention with all heads on the last axis, the fastest layout for numpy's sums.

`HeadRows` has ``[head, query, key]``; here it is ``[query, key, head]``, with heads of several
layers and sentences under one mask. Names and rules are those of `HeadRows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .keys import OFFSETS, offset_keys
from .rows import GRID, LEAST_MASS, TIE, HeadRows

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # SplitMix64's step


@dataclass(frozen=True, eq=False)
class Facts:
    """Data shared by all heads of a stack: ``of`` holds the mask and the special tokens."""

    of: HeadRows

    @cached_property
    def spoken(self) -> np.ndarray:
        """Rows of words that may look at two or more keys, ``[query]``."""
        r = self.of
        return r.spoken & ~r.query_special & (r.allowed.sum(-1) >= 2)

    @cached_property
    def chosen(self) -> np.ndarray:
        """Those rows that may look at two keys of this view, ``[query]``."""
        return self.spoken & (self.of.count >= 2)

    @cached_property
    def open(self) -> np.ndarray:
        """K(i) as numbers, ``[query, key, 1]``."""
        return self.of.keys.astype(np.float64)[..., None]

    @cached_property
    def words(self) -> np.ndarray:
        """Positions to which the null may move rows of words, ``[some]``."""
        return np.flatnonzero(self.of.spoken & ~self.of.query_special)

    @cached_property
    def alike(self) -> bool:
        """True if all rows of words see the same keys, so that they can be permuted."""
        rows = self.of.keys[self.words]
        return bool((rows == rows[:1]).all())

    @cached_property
    def offsets(self) -> np.ndarray:
        """Rows with a key that counts at each offset, ``[offset, query]``."""
        return offset_keys(self.of)[1]

    @cached_property
    def column(self) -> np.ndarray:
        """Index in `OFFSETS` of each cell, -1 where it does not count, ``[query, key]``."""
        found = np.full(self.of.allowed.shape, -1)
        key, there = offset_keys(self.of)
        at, row = np.nonzero(there)
        found[row, key[at, row]] = at
        return found


@dataclass(frozen=True, eq=False)
class Looks:
    """Weights of some heads: ``raw`` float64 ``[query, key, head]``, finite, with ``facts``."""

    facts: Facts
    raw: np.ndarray
    finite: np.ndarray | None = None  #: bool ``[query, head]``, None where all rows were

    @cached_property
    def _kept(self) -> np.ndarray:
        return self.raw * self.facts.open

    @cached_property
    def mass(self) -> np.ndarray:
        """Weight of each row on the keys of this view, ``[query, head]``."""
        return self._kept.sum(1)

    @cached_property
    def heeded(self) -> np.ndarray:
        """Rows that are not sink rows, bool ``[query, head]``."""
        if self.facts.of.view == "content":
            return self.mass >= LEAST_MASS
        return np.ones(self.mass.shape, bool) if self.finite is None else self.finite

    @cached_property
    def viewed(self) -> np.ndarray:
        """Weights A' of this view."""
        if self.facts.of.view == "raw":
            return self._kept
        return self._kept / np.where(self.heeded, self.mass, 1.0)[:, None]

    @cached_property
    def asked(self) -> np.ndarray:
        """Rows of words with a choice, 1 or 0, ``[query, head]``."""
        spoken = self.facts.spoken[:, None]
        finite = np.ones(self.mass.shape, bool) if self.finite is None else self.finite
        return (spoken & finite).astype(np.float64)

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of words with a choice in this view, 1 or 0, ``[query, head]``."""
        return self.asked * (self.facts.chosen[:, None] & self.heeded)

    def at(self, offset: int, order: np.ndarray | None = None) -> np.ndarray:
        """Return A' at an offset from each row, 0 where no key is there, ``[query, head]``.

        ``order`` ``[query, head]`` is the row moved to each position.
        """
        queries, keys, heads = self.raw.shape
        row = np.arange(max(0, -offset), min(queries, keys - offset))
        found = np.zeros((queries, heads))
        if order is None:
            found[row] = self.viewed[row, row + offset]
        else:
            found[row] = self.viewed[order[row], row[:, None] + offset, np.arange(heads)]
        return found

    @cached_property
    def peaks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Row, key and head of each largest weight, and its share of the row in units of `GRID`.

        End tokens are left out; ties share their row.
        """
        r = self.facts.of
        weights = self.viewed
        if r.view == "raw" and r.ends.any():
            weights = weights * ~r.ends[:, None]
        best = weights >= weights.max(1, keepdims=True) - TIE
        best &= (r.keys & ~r.ends)[..., None]
        ties = np.add.reduce(best, axis=1, dtype=np.int32)
        place, head = np.divmod(np.flatnonzero(best), self.raw.shape[2])
        row, key = np.divmod(place, self.raw.shape[1])
        return row, key, head, np.rint(GRID / np.maximum(ties, 1))[row, head]

    def shares(
        self, rows: np.ndarray, moved: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum and sum of squares of `peaks` at each offset, ``[offset, head]``.

        ``rows`` ``[query, head]`` selects rows; ``moved`` is the new position of each.
        """
        row, key, head, share = self.peaks
        if moved is not None:
            row = moved[row, head]
        column = self.facts.column[row, key]
        share = share * rows[row, head]
        share[column < 0] = 0.0
        heads = self.raw.shape[2]
        place, size = np.maximum(column, 0) * heads + head, len(OFFSETS) * heads
        found = (
            np.bincount(place, part, size).reshape(-1, heads)
            for part in (share, np.rint(share * share / GRID))
        )
        total, squares = found
        return total, squares


def orders(facts: Facts, draws: np.ndarray, kind: int) -> np.ndarray:
    """Return a random order of the words of each sentence, for the null.

    Words are sorted by a hash of the sentence's draw, the kind and their position, so an order
    depends on nothing else. The hash is SplitMix64 (Steele et al. 2014).

    Args:
        facts: Data of the stack.
        draws: Integer of each sentence, uint64 ``[sentence]``.
        kind: Another number gives another order.

    Returns:
        ``[sentence, place]``, the original position at each position.
    """
    words = facts.words
    found = np.tile(np.arange(len(facts.of.spoken)), (len(draws), 1))
    places = (np.arange(len(words)) + 1 + (kind << 32)).astype(np.uint64)
    mixed = _mixed(_mixed(draws.astype(np.uint64))[:, None] + places * GOLDEN)
    found[:, words] = words[np.argsort(mixed, axis=1, kind="stable")]
    return found


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return SplitMix64's finalizer: every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
