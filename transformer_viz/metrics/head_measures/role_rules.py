"""Roles by rule: which heads may be called by what they do, and how little is enough to say no."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from ..statistics.bootstrap import LEVEL
from ..statistics.significance import holm, two_sided
from .registry import MEASURES, HeadMeasure
from .tables import NULL, SENTENCES, names_of

LIFT = 0.3  # of the way from chance to 1
LEAST_ROWS = 20  # asked of a head
COPYING_CHANCE = 0.05  # more, and the five words that a head raises are too many of all
LEAST_SENTENCES = 5  # fewer have no interval worth the name
ALPHA = 1 - LEVEL
NORMAL = 1.959964  # standard deviations from the middle of a 95 % interval to its ends

SINK, SINK_LIFT = 0.3, 0.2  # Gu et al. 2024; the lift keeps short sentences out
SPREAD, SHARP = 0.9, 0.2  # of the entropy, 0..1
ROLES = tuple(measure.name for measure in MEASURES if measure.threshold is not None)


def roles(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `metrics` with two columns more: ``roles``, often empty, and ``states``.

    A role is a measure of ``previous, self, next, positional, duplicate, induction, copying``; a
    head may have several. It is given only if all of these hold:

    - the score is at least .5 (``positional``: .9), from 20 rows or more;
    - its lift, ``(score - chance) / (1 - chance)``, is at least .3; of ``positional`` also that of
      its confidence: with a bias of positions (ALiBi) even random weights are largest at one
      offset, by a hair;
    - of a table of five sentences or more: the lower end of the 95 % interval is above the null,
      and so is the score by Student's t with Holm's correction over heads. The null is the larger
      of chance and the same measure with the ids of words (duplicate, induction) or their rows
      (previous, self, next, positional) in random order. Null and number of sentences stand in
      ``table.attrs``; where they were lost, chance is the null and the next rule holds as well;
    - of one trace, or of fewer sentences: the score lies above chance by more than Hoeffding's
      bound for that many rows, at 5 % over all heads together. Rows of one sentence are not
      independent, so such a role is a hint;
    - for ``copying`` chance is .05 at most, which is a vocabulary of 100 words: whether a head
      raises a word is decided once a word and not once a row, and of few words too many are hit
      by luck.

    ``states`` say how a head looks, beside any role: ``sink`` (more than .3 on the first token or
    on special ones, lift .2), ``spread`` (entropy .9 or more), ``sharp`` (.2 or less, no sink).

    Raises:
        ValueError: not a table of `metrics`; names the columns that lack.
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
    """Which heads have this role, bool ``[head]``. A comparison with NaN is False."""
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
    """Whether interval and corrected test stand above the null, bool ``[head]``."""
    low, high = (table[f"{name}_{end}"].to_numpy(np.float64) for end in ("low", "high"))
    asked = np.isfinite(score) & np.isfinite(low) & np.isfinite(null)
    error = np.maximum(high - low, 1e-12)[asked] / (2 * NORMAL)
    error *= math.sqrt(sentences / (sentences - 1))
    t = (score - null)[asked] / error
    p = np.ones(len(score))
    p[asked] = np.where(t > 0, two_sided(t, sentences - 1), 1.0)
    return (low > null) & (holm(p) < ALPHA)


def _null(table: pd.DataFrame, name: str) -> np.ndarray:
    """The measure in random order, by head; NaN where the table no longer says."""
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
