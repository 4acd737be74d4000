"""From scores to names: which heads have a role, and that most have none."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from .registry import METRICS, Metric

LIFT = 0.3  # of the way from chance to 1
ROWS = 10  # rows, below which nothing is said
LEVEL = 0.05  # of the family of all heads, for each role
SELF_ALONE = ("previous", "self", "next", "positional", "duplicate", "induction")
SINK, SPREAD, SHARP = 0.3, 0.9, 0.1  # weight on the first token (Gu et al. 2024); entropies


def roles(table: pd.DataFrame) -> pd.DataFrame:
    """The table with two more columns: ``roles`` and ``states``, tuples of names, often empty.

    A head has a role if all of this holds of its score: it reaches the threshold (previous, self,
    next, duplicate, induction and copying .5, positional .9); it covers .3 of the way from chance
    to 1; ten rows or more were asked; it lies above the null (the same metric with words or rows in
    another order) beyond doubt, at 5 % for all heads together (Holm 1979), and so does the lower
    end of its interval. A positional head must also be that much more confident than chance: with
    ALiBi even random weights are largest at one offset, by a hair. A head may have several.

    Words of one sentence say little about a head: on a table of a single trace (or of fewer than
    five sentences) there is no interval and no null, and Hoeffding's bound for that many rows, at
    5 % shared among all heads, must lie above chance.

    States are no roles: ``sink`` (weight on the first token over .3, or on special tokens over .5,
    with the same lift), ``spread`` and ``sharp`` (entropy from .9, to .1).

    Args:
        table: what ``tv.metrics`` gave, with all of its rows: they count as tests that were made.

    Raises:
        ValueError: a table without the columns of ``tv.metrics``; names those that are missing.
    """
    wanted = [f"{m.name}{end}" for m in METRICS for end in ("", "_rows", "_chance")]
    missing = [name for name in ["block", *wanted] if name not in table]
    if missing:
        raise ValueError(f"roles needs a table of tv.metrics; it lacks {', '.join(missing[:3])}.")
    given = {metric.name: _holders(metric, table) for metric in METRICS if metric.threshold}
    states = {"sink": _parked(table), "spread": table["entropy"] >= SPREAD}
    states["sharp"] = table["entropy"] <= SHARP
    return table.assign(roles=_named(given, len(table)), states=_named(states, len(table)))


def _named(found: dict[str, np.ndarray], heads: int) -> list[tuple[str, ...]]:
    return [tuple(n for n, has in found.items() if np.asarray(has)[i]) for i in range(heads)]


def lift(table: pd.DataFrame, name: str) -> np.ndarray:
    """How far a score is from chance to 1, ``(s - u) / (1 - u)``, ``[head]``."""
    chance = table[f"{name}_chance"].to_numpy(float)
    room = np.where(chance < 1, 1 - chance, np.nan)
    return (table[name].to_numpy(float) - chance) / room


def _holders(metric: Metric, table: pd.DataFrame) -> np.ndarray:
    """Which heads have a metric's role, ``[head]`` of bool."""
    score = table[metric.name].to_numpy(float)
    rows = table[f"{metric.name}_rows"].to_numpy(float)
    enough = (score >= metric.threshold) & (lift(table, metric.name) >= LIFT) & (rows >= ROWS)
    if metric.name == "positional":  # a bias of positions can decide where next to nothing is
        enough &= lift(table, "confidence") >= LIFT
    if metric.name in SELF_ALONE:
        enough &= (table["block"] == "self").to_numpy()
    return enough & _beyond_doubt(metric.name, table, score, rows)


def _beyond_doubt(
    name: str, table: pd.DataFrame, score: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Whether each score is above its null after a correction for the number of heads."""
    chance = table[f"{name}_chance"].to_numpy(float)
    bound = np.sqrt(math.log(max(len(table), 1) / LEVEL) / (2 * np.maximum(rows, 1)))
    by_rows = score - bound > chance
    if f"{name}_p" not in table:
        return by_rows
    p, null = (table[f"{name}_{end}"].to_numpy(float) for end in ("p", "null"))
    by_sentences = holm(p) & (table[f"{name}_low"].to_numpy(float) > null)
    return np.where(np.isnan(p), by_rows, by_sentences)


def holm(p: np.ndarray, level: float = LEVEL) -> np.ndarray:
    """Which of several probabilities ``[test]`` hold together at a level (Holm 1979); NaN is no
    test."""
    order = np.argsort(p, kind="stable")  # NaN last
    tests = int((~np.isnan(p)).sum())
    allowed = level / np.maximum(tests - np.arange(len(p)), 1)
    passed = np.zeros(len(p), dtype=bool)
    passed[order] = np.logical_and.accumulate(p[order] <= allowed)
    return passed


def _parked(table: pd.DataFrame) -> np.ndarray:
    """Heads that park their weight on the first token, or on special ones and marks."""
    first = (table["sink"].to_numpy(float) > SINK) & (lift(table, "sink") >= LIFT)
    return first | ((table["special"].to_numpy(float) > 0.5) & (lift(table, "special") >= LIFT))
