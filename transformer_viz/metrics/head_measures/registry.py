"""Every measure of a head, one entry each, in the order of the table's columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .cross import coverage, diagonality, monotonicity
from .patterns import (
    confidence,
    distance,
    entropy,
    following,
    itself,
    positional,
    previous,
    sink,
    special,
)
from .repeats import duplicate, induction
from .rows import HeadRows, Tally
from .values import copying, copying_by_chance, null, ov_by_chance, ov_copying


@dataclass(frozen=True)
class HeadMeasure:
    """A number about a head, and when it gives the head a role.

    ``of`` gives the tally of one block in one sentence, ``[head]`` or ``[head, offset]``;
    ``by_chance`` what chance gives on the same rows, left out: ``of`` for heads that look
    everywhere alike. A head with at least ``threshold`` may bear the name as a role; ``shuffled``
    is what the null puts in another order, ids or rows, None where chance is the null.
    """

    name: str
    of: Callable[[HeadRows], Tally]
    threshold: float | None = None
    shuffled: Literal["ids", "rows"] | None = None
    by_chance: Callable[[HeadRows], Tally] | None = None

    def chance(self, rows: HeadRows) -> Tally:
        """What chance gives on the same rows."""
        return self.of(rows.even()) if self.by_chance is None else self.by_chance(rows)


#: M1 to M15.
MEASURES: tuple[HeadMeasure, ...] = (
    HeadMeasure("entropy", entropy),
    HeadMeasure("confidence", confidence),
    HeadMeasure("distance", distance),
    HeadMeasure("previous", previous, 0.5, "rows"),
    HeadMeasure("self", itself, 0.5, "rows"),
    HeadMeasure("next", following, 0.5, "rows"),
    HeadMeasure("positional", positional, 0.9, "rows"),
    HeadMeasure("sink", sink),
    HeadMeasure("special", special),
    HeadMeasure("null", null),
    HeadMeasure("duplicate", duplicate, 0.5, "ids"),
    HeadMeasure("induction", induction, 0.5, "ids"),
    HeadMeasure("copying", copying, 0.5, by_chance=copying_by_chance),
    HeadMeasure("ov_copying", ov_copying, by_chance=ov_by_chance),
    HeadMeasure("monotonicity", monotonicity),
    HeadMeasure("diagonality", diagonality),
    HeadMeasure("coverage", coverage),
)


def settled(sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and rows of each head, ``[..., head]``; NaN where no row was asked.

    Of measures that were taken at several offsets ``[..., head, offset]`` the best offset counts;
    one for which fewer than half as many rows could be asked as for another takes no part, as few
    rows reach extremes by luck.
    """
    known = counts > 0
    means = np.where(known, sums / np.where(known, counts, 1.0), np.nan)
    if means.shape[-1] == 1:
        return means[..., 0], counts[..., 0]
    enough = known & (counts >= counts.max(-1, keepdims=True) / 2)
    best = np.where(enough, means, -1.0).argmax(-1)[..., None]
    return (
        np.take_along_axis(means, best, -1)[..., 0],
        np.take_along_axis(counts, best, -1)[..., 0],
    )
