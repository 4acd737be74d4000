"""Columns of an atlas: one per measure, and one per offset for `positional`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .keys import OFFSETS
from .registry import MEASURES, settled

#: Version of the definitions; atlases of different versions are not merged.
METRIC_SET = "2"
BINS = 256
OFFSET_MEASURE = "positional"
#: Columns: the measure, and its offset or None.
COLUMNS: tuple[tuple[str, int | None], ...] = tuple(
    (measure.name, offset)
    for measure in MEASURES
    for offset in (OFFSETS if measure.name == OFFSET_MEASURE else (None,))
)
NAMES = tuple(measure.name for measure in MEASURES)
PLACES: dict[str, slice] = {
    name: slice(
        min(n for n, one in enumerate(COLUMNS) if one[0] == name),
        max(n for n, one in enumerate(COLUMNS) if one[0] == name) + 1,
    )
    for name in NAMES
}
#: Measures with example sentences: all that are computed from rows.
SHOWN = tuple(name for name in NAMES if name != "ov_copying")
#: Lower end of a measure's range; bins divide 0..1 or -1..1.
_LOW = {measure.name: measure.low for measure in MEASURES}
_LOWS = np.array([_LOW[name] for name, _ in COLUMNS])


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums per sentence, ``[sentence, head, column]`` int64.

    Sums and squares are in units of 2^-30 (`rows.GRID`), so that addition is exact.
    """

    rows: np.ndarray
    total: np.ndarray
    squares: np.ndarray
    chance_rows: np.ndarray
    chance: np.ndarray
    null_rows: np.ndarray
    null: np.ndarray

    @classmethod
    def empty(cls, sentences: int, heads: int) -> Sums:
        """Return sums without rows."""
        shape = (sentences, heads, len(COLUMNS))
        return cls(*(np.zeros(shape, np.int64) for _ in range(7)))


def bin_of(means: np.ndarray) -> np.ndarray:
    """Return the bin of each mean ``[..., column]``, 0 to 255; lower values are in the first."""
    share = (means - _LOWS) / (1 - _LOWS)
    return np.clip(np.floor(share * BINS), 0, BINS - 1).astype(np.int64)


def edges(name: str) -> np.ndarray:
    """Return the bin edges of a measure, ``[257]``."""
    return np.linspace(_LOW[name], 1.0, BINS + 1)


def scores(sums: Sums, grid: float) -> np.ndarray:
    """Return each sentence's mean by the measures of `SHOWN`, ``[sentence, head, measure]``.

    Float64; NaN without a usable row; for `positional` the best offset.
    """
    found = [
        settled(sums.total[..., PLACES[name]] / grid, sums.rows[..., PLACES[name]].astype(float))[0]
        for name in SHOWN
    ]
    return np.stack(found, -1)
