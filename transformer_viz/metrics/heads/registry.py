"""Every metric about heads, one line each: its column, its function, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import across, where, words
from .maps import Maps
from .moments import Moments, ratio


def _mean(total: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, None]:
    return ratio(total, count), None


@dataclass(frozen=True)
class Metric:
    """A column of the table: ``measure`` gives moments, ``finish`` makes of pooled sums the value
    and, where the last axis is an offset, its place.

    ``chance`` is "uniform" (the same function of a uniform head), "top" (5 of the vocabulary) or
    "zero". A metric that can give a role has a ``null`` (``ids`` or ``rows`` in another order, or
    "chance") and a ``threshold``.
    """

    name: str
    measure: Callable[[Maps], Moments]
    finish: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]] = _mean
    chance: str = "uniform"
    null: str = ""
    threshold: float = 0.0


#: Every metric, in the order of the columns; a role bears its metric's name.
METRICS: tuple[Metric, ...] = (
    Metric("entropy", where.entropy),
    Metric("confidence", where.confidence),
    Metric("distance", where.distance),
    Metric("previous", where.previous, null="rows", threshold=0.5),
    Metric("self", where.itself, null="rows", threshold=0.5),
    Metric("next", where.following, null="rows", threshold=0.5),
    Metric("positional", where.positional, where.best_offset, null="rows", threshold=0.9),
    Metric("sink", where.sink),
    Metric("special", where.special),
    Metric("null", where.null),
    Metric("duplicate", words.duplicate, null="ids", threshold=0.5),
    Metric("induction", words.induction, null="ids", threshold=0.5),
    Metric("copying", words.copying, chance="top", null="chance", threshold=0.5),
    Metric("ov_copying", words.ov_copying, chance="zero"),
    Metric("monotonicity", across.monotonicity),
    Metric("diagonality", across.diagonality),
    Metric("coverage", across.coverage),
)
NAMES = tuple(metric.name for metric in METRICS)
