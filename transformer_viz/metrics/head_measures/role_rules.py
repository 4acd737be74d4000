"""Rules that assign roles to heads from their measures."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..statistics.bootstrap import LEVEL
from ..statistics.significance import holm, two_sided
from .registry import MEASURES, HeadMeasure
from .tables import NULL, SENTENCES, names_of

LIFT = 0.3  # relative to the distance from chance to 1
LEAST_ROWS = 20  # minimum rows of a head
COPYING_CHANCE = 0.05  # above it, five promoted tokens are too large a share of the vocabulary
LEAST_SENTENCES = 5  # fewer give no meaningful interval
ALPHA = 1 - LEVEL
NORMAL = 1.959964  # half width of a 95 % interval, in standard deviations

SINK, SINK_LIFT = 0.3, 0.2  # Gu et al. 2024; the lift excludes short sentences
SPREAD, SHARP = 0.9, 0.2  # bounds of the entropy, 0..1
ROLES = tuple(measure.name for measure in MEASURES if measure.threshold is not None)


def roles(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `metrics` with two more columns: ``roles``, often empty, and ``states``.

    A role is a measure of ``previous, self, next, positional, duplicate, induction, copying``; a
    head may have several. It is assigned only if all of these hold:

    - The score is at least .5 (``positional``: .9), from 20 rows or more.
    - The lift, ``(score - chance) / (1 - chance)``, is at least .3. For ``positional``, the lift of
      its confidence is too: with a position bias (ALiBi) even random weights are slightly largest
      at one offset.
    - For a table of five sentences or more: the lower end of the 95 % interval is above the null,
      and so is the score by Student's t with Holm's correction over heads. The null is the larger
      of chance and the same measure with shuffled token ids (duplicate, induction) or rows
      (previous, self, next, positional). Null and number of sentences are in ``table.attrs``. If
      they were lost, chance is the null and the next rule applies too.
    - For one trace, or fewer sentences: the score exceeds chance by more than Hoeffding's bound for
      that many rows, at 5 % over all heads together. Rows of one sentence are not independent, so
      such a role is a hint.
    - For ``copying``, chance is at most .05, i.e. a vocabulary of 100 tokens. A head promotes a
      token or not, independent of the row, and in a small vocabulary too many match by chance.

    ``states`` describe attention besides any role: ``sink`` (more than .3 on the first token or on
    special ones, lift .2), ``spread`` (entropy .9 or more), ``sharp`` (.2 or less, no sink).

    Raises:
        ValueError: The table is not one of `metrics`.
    """
    wanted = ["stack", "block", "layer", "head", "entropy", "sink", "special"]
    wanted += ["confidence", "confidence_chance"]
    wanted += [f"{name}{part}" for name in ROLES for part in ("", "_rows", "_chance")]
    whole: object = table
    if not isinstance(whole, pd.DataFrame):
        got = type(whole).__name__
        raise ValueError(f"Roles are told from a table of tv.metrics; got a {got}.")
    lacking = [column for column in wanted if column not in table.columns]
    if lacking:
        raise ValueError(
            f"Roles are told from a table of tv.metrics; this one lacks {', '.join(lacking)}."
        )
    given = {m.name: _bears(table, m) for m in MEASURES if m.threshold is not None}
    states = _states(table)
    result = table.copy()
    for column, flags in (("roles", given), ("states", states)):
        told = [
            tuple(name for name, flag in flags.items() if flag[row]) for row in range(len(table))
        ]
        result[column] = pd.Series(told, index=table.index, dtype=object)
    return result


def _bears(table: pd.DataFrame, measure: HeadMeasure) -> np.ndarray:
    """Return True for the heads with this role, bool ``[head]``; comparisons with NaN are False."""
    name = measure.name
    score, chance, rows = (
        table[f"{name}{part}"].to_numpy(np.float64) for part in ("", "_chance", "_rows")
    )
    assert measure.threshold is not None
    lift = (score - chance) / np.where(chance < 1, 1 - chance, np.nan)
    fit = (score >= measure.threshold) & (lift >= LIFT) & (rows >= LEAST_ROWS)
    if name == "positional":
        confident, even = (table[f"confidence{part}"].to_numpy() for part in ("", "_chance"))
        fit &= (confident - even) / np.where(even < 1, 1 - even, np.nan) >= LIFT
    if name == "copying":
        fit &= chance <= COPYING_CHANCE
    bound = np.sqrt(math.log(max(1, len(table)) / ALPHA) / (2 * np.maximum(rows, 1)))
    by_rows = fit & (score - bound > chance)
    sentences = table.attrs.get(SENTENCES)
    if f"{name}_low" not in table.columns or (sentences or LEAST_SENTENCES) < LEAST_SENTENCES:
        return by_rows
    null = np.fmax(chance, _null(table, name))
    above = _above(table, name, score, null, sentences or LEAST_SENTENCES)
    return fit & above if sentences else by_rows & above


def _above(
    table: pd.DataFrame, name: str, score: np.ndarray, null: np.ndarray, sentences: int
) -> np.ndarray:
    """Return True where interval and corrected test exceed the null, bool ``[head]``."""
    low, high = (table[f"{name}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
    asked = np.isfinite(score) & np.isfinite(low) & np.isfinite(null)
    error = np.maximum(high - low, 1e-12)[asked] / (2 * NORMAL)
    error *= math.sqrt(sentences / (sentences - 1))
    t = (score - null)[asked] / error
    p = np.ones(len(score))
    p[asked] = np.where(t > 0, two_sided(t, sentences - 1), 1.0)
    return (low > null) & (holm(p) < ALPHA)


def _null(table: pd.DataFrame, name: str) -> np.ndarray:
    """Return the shuffled measure by head; NaN where the table has lost it."""
    kept = table.attrs.get(NULL, {})
    if name not in kept:
        return np.full(len(table), np.nan)
    by_head = dict(zip(map(tuple, kept["heads"]), kept[name], strict=True))
    return np.array([by_head.get(head, np.nan) for head in names_of(table)])


def _states(table: pd.DataFrame) -> dict[str, np.ndarray]:
    def parks(name: str) -> np.ndarray:
        score, chance = (table[column].to_numpy(np.float64) for column in (name, f"{name}_chance"))
        return (score > SINK) & (score - chance >= SINK_LIFT * (1 - chance))

    sink = parks("sink") | parks("special")
    entropy = table["entropy"].to_numpy(np.float64)
    return {"sink": sink, "spread": entropy >= SPREAD, "sharp": (entropy <= SHARP) & ~sink}
