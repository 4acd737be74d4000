"""Top-k candidates of an output position."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from ...core.given.facts import PROBABILITIES, require_captured
from ...core.numerics import probabilities as chances_of
from ...core.trace import Trace


def probabilities(trace: Trace, row: int) -> np.ndarray:
    """Return the probability of each token of the vocabulary at one position.

    The softmax of a row of logits; for several labels the sigmoid of each; NaN for a regression.

    Args:
        trace: Run of a model with an output layer.
        row: Position, from 0; row t of a decoder predicts token t + 1. Classes are in row 0.

    Returns:
        ``[vocabulary]`` float64; a softmax sums to 1.

    Raises:
        LookupError: The model has no logits, or the row does not exist.
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
    """Return the ids of the largest logits, in order; ties by id."""
    last = min(count, len(logits)) - 1
    least = np.partition(-logits, last)[last]  # avoids sorting the whole vocabulary
    among = np.flatnonzero(-logits <= least)
    if not len(among):  # NaN logits
        among = np.arange(len(logits))
    return among[np.argsort(-logits[among], kind="stable")][:count]


class Candidate(NamedTuple):
    """Candidate token: its id, probability 0...1 and rank from 1.

    The probability is NaN for a regression; ``logit`` is the raw output.
    """

    id: int
    probability: float
    rank: int
    logit: float = float("nan")


def candidates(trace: Trace, row: int, count: int = 5, held: int | None = None) -> pd.DataFrame:
    """Return the most probable tokens at a position, in order.

    Args:
        trace: Run of a model with an output layer.
        row: Position, from 0.
        count: Number of tokens.
        held: Id of a token to include in any case, last if it is not among the others.

    Returns:
        A row per token: ``id``, ``probability`` (0...1), ``rank`` (1: the most probable; ties share
            a rank), ``logit``.

    Raises:
        LookupError: No logits, or no such row or token.
        ValueError: The count is below 1.
    """
    return pd.DataFrame(most_probable(trace, row, count, held), columns=list(Candidate._fields))


def most_probable(
    trace: Trace, row: int, count: int = 5, held: int | None = None
) -> list[Candidate]:
    """Return the rows of `candidates` as a list, which is faster for live pictures."""
    if count < 1:
        raise ValueError(f"Candidates are at least 1; got count={count}.")
    logits = _logits(trace, row)  # they distinguish values that the softmax rounds to 0
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
