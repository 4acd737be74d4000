"""Totals over any number of sentences: integers, so order and split do not matter."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from ..head_measures.columns import BINS, COLUMNS, NAMES, PLACES, Sums, bin_of
from ..head_measures.registry import MEASURES, settled
from ..head_measures.rows import GRID
from ..head_measures.tables import HEAD, NULL, SENTENCES

FINE = 2.0**20  # sums of products over sentences are rounded to 2^-20
NORMAL = 1.959964  # half width of a 95 % interval, in standard deviations


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over sentences, ``[head, column]`` int64 each.

    Attributes:
        n: Rows counted.
        sum: Sum of their values in units of 2^-30.
        squares: Sum of their squares, likewise.
        chance_n: Rows counted under chance.
        chance_sum: Sum under chance.
        null_n: Rows counted under the null.
        null_sum: Sum under the null.
        sentences: Sentences with a counted row.
        ss: Sum over sentences of s * s, in units of 2^-20, with s a sentence's sum and m its rows.
            With ``sm`` and ``mm``, it gives the interval over sentences.
        sm: Sum of s * m, in units of 2^-20.
        mm: Sum of m * m.
        bins: Sentences by their mean, ``[head, column, 256]``.
    """

    n: np.ndarray
    sum: np.ndarray
    squares: np.ndarray
    chance_n: np.ndarray
    chance_sum: np.ndarray
    null_n: np.ndarray
    null_sum: np.ndarray
    sentences: np.ndarray
    ss: np.ndarray
    sm: np.ndarray
    mm: np.ndarray
    bins: np.ndarray

    @classmethod
    def empty(cls, heads: int) -> Totals:
        """Return totals of no sentence."""
        parts = [np.zeros((heads, len(COLUMNS)), np.int64) for _ in range(len(fields(cls)) - 1)]
        parts.append(np.zeros((heads, len(COLUMNS), BINS), np.int64))
        return cls(*parts)

    def plus(self, other: Totals) -> Totals:
        """Return the totals of both sets of sentences."""
        return Totals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def m2(self) -> np.ndarray:
        """Sum of squared distances from the mean, over rows, ``[head, column]`` float64."""
        n = np.maximum(self.n, 1)
        return np.maximum(self.squares / GRID - (self.sum / GRID) ** 2 / n, 0.0)


def totals_of(sums: Sums) -> Totals:
    """Return the totals of the sentences of `Sums`."""
    s, m = sums.total / GRID, sums.rows
    asked = m > 0
    bins = np.zeros((*m.shape[1:], BINS), np.int64)
    _, head, column = np.nonzero(asked)
    means = np.where(asked, s / np.maximum(m, 1), 0.0)
    flat = np.ravel_multi_index((head, column, bin_of(means)[asked]), bins.shape)
    bins += np.bincount(flat, minlength=bins.size).reshape(bins.shape)

    def fine(x: np.ndarray) -> np.ndarray:
        return np.rint(x * FINE).astype(np.int64).sum(0)

    own = (m, sums.total, sums.squares, sums.chance_rows, sums.chance, sums.null_rows, sums.null)
    parts = [x.sum(0) for x in (*own, asked.astype(np.int64))]
    parts += [fine(s * s), fine(s * m), (m * m).sum(0), bins]
    return Totals(*parts)


def table(heads: list[tuple[str, str, int, int]], totals: Totals) -> pd.DataFrame:
    """Return the columns of `tv.metrics` over sentences, as input of `tv.roles`.

    ``m_low`` and ``m_high`` are the mean plus and minus 1.96 standard errors of a ratio of sums
    over sentences (Cochran 1977, section 6.3). Sentences are units, as in the bootstrap. NaN with
    fewer than two usable sentences.
    """
    made = pd.DataFrame(heads, columns=HEAD)
    columns: dict[str, np.ndarray] = {}
    nulls: dict[str, list[float]] = {}
    for name in NAMES:
        at = PLACES[name]
        mean, rows = settled(totals.sum[:, at] / GRID, totals.n[:, at].astype(float))
        columns[name], columns[f"{name}_rows"] = mean, rows.astype(np.int64)
        columns[f"{name}_chance"] = settled(
            totals.chance_sum[:, at] / GRID, totals.chance_n[:, at].astype(float)
        )[0]
        error = _error(totals, at, mean)
        columns[f"{name}_low"], columns[f"{name}_high"] = mean - error, mean + error
    for name in (measure.name for measure in MEASURES if measure.shuffled):
        at = PLACES[name]
        known = settled(totals.null_sum[:, at] / GRID, totals.null_n[:, at].astype(float))[0]
        nulls[name] = known.tolist()
    made = pd.concat([made, pd.DataFrame(columns)], axis=1)
    made.attrs = {SENTENCES: int(totals.sentences.max()), NULL: {"heads": heads, **nulls}}
    return made


def _error(totals: Totals, at: slice, mean: np.ndarray) -> np.ndarray:
    """Return half the width of the interval, ``[head]``, at the offset with the given mean."""
    n = totals.n[:, at]
    means = totals.sum[:, at] / GRID / np.maximum(n, 1)
    column = np.abs(means - np.nan_to_num(mean)[:, None]).argmin(-1)[:, None]
    n, some, ss, sm, mm = (
        np.take_along_axis(x[:, at], column, -1)[:, 0].astype(float)
        for x in (totals.n, totals.sentences, totals.ss, totals.sm, totals.mm)
    )
    around = np.maximum(ss / FINE - 2 * mean * sm / FINE + mean**2 * mm, 0.0)
    enough = some >= 2
    variance = around / np.where(enough, n, 1.0) ** 2 * some / np.where(enough, some - 1, 1.0)
    return np.where(enough, NORMAL * np.sqrt(variance), np.nan)
