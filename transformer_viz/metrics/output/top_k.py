"""What else the model could have said: the most probable words at a place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...core.given.facts import PROBABILITIES, require_captured
from ...core.numerics import probabilities as chances_of
from ...core.trace import Trace


def probabilities(trace: Trace, row: int) -> np.ndarray:
    """How probable each word of the vocabulary is at one place: the softmax of a row of logits.

    Of several labels the sigmoid of each; of a regression NaN, since its outputs have none.

    Args:
        trace: a run of a model with an output layer.
        row: the place, from 0; row t of a decoder says token t + 1. Classes stand in row 0.

    Returns:
        ``[vocabulary]`` float64; that of a softmax sums to 1.

    Raises:
        LookupError: a model that gives no words, or a row that is not there; says which.
    """
    return chances_of(_logits(trace, row), trace.task)


def _logits(trace: Trace, row: int) -> np.ndarray:
    if trace.logits is None:
        require_captured(trace, PROBABILITIES)
        raise LookupError(
            "This run has no logits of words, so there are no candidates; they come from a model "
            "with an output layer over its vocabulary."
        )
    rows = np.atleast_2d(trace.logits)  # classes are one row
    if not 0 <= row < len(rows):
        raise LookupError(f"This run has rows 0 to {len(rows) - 1}; got row {row}.")
    return np.asarray(rows[row], np.float64)


def _first(logits: np.ndarray, count: int) -> np.ndarray:
    """The ids of the largest logits, the largest first; of equals the smaller id."""
    last = min(count, len(logits)) - 1
    least = np.partition(-logits, last)[last]  # a whole vocabulary is not sorted for a few words
    among = np.flatnonzero(-logits <= least)
    if not len(among):  # logits that are not numbers
        among = np.arange(len(logits))
    return among[np.argsort(-logits[among], kind="stable")][:count]


class Candidate(NamedTuple):
    """A word that could stand at a place: its id, its probability 0...1 (NaN for the output of a
    regression), and its rank from 1; ``logit`` is the output itself."""

    id: int
    probability: float
    rank: int
    logit: float = float("nan")


def candidates(trace: Trace, row: int, count: int = 5, held: int | None = None) -> pd.DataFrame:
    """The most probable words at a place, the most probable first.

    Args:
        trace: a run of a model with an output layer.
        row: the place, from 0.
        count: how many words to give.
        held: a word (its id) that is given in any case: below the others if it is not of them.

    Returns:
        A row a word: ``id``, ``probability`` (0...1), ``rank`` (1: the most probable; words that
        are equally probable share one), ``logit``.

    Raises:
        LookupError: no logits, no such row or word; says which there are.
        ValueError: a count below 1.
    """
    return pd.DataFrame(most_probable(trace, row, count, held), columns=list(Candidate._fields))


def most_probable(
    trace: Trace, row: int, count: int = 5, held: int | None = None
) -> list[Candidate]:
    """The rows of `candidates` without a table around them, for pictures that follow a slider."""
    if count < 1:
        raise ValueError(f"Candidates are at least 1; got count={count}.")
    logits = _logits(trace, row)  # they tell apart what the softmax rounds to 0
    if held is not None and not 0 <= held < len(logits):
        raise LookupError(f"This vocabulary has ids 0 to {len(logits) - 1}; got {held}.")
    chances = chances_of(logits, trace.task)
    ids = _first(logits, count)
    if held is not None and held not in ids:
        ids = np.append(ids, held)
    ranks = 1 + (logits > logits[ids][:, None]).sum(axis=1)
    columns = (ids, chances[ids], ranks, logits[ids])
    found = zip(*(column.tolist() for column in columns), strict=True)
    return [Candidate(*word) for word in found]
