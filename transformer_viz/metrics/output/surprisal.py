"""How probable a model finds words that are held, and what a change costs them."""

from __future__ import annotations

import numpy as np

from ...core.given.facts import PROBABILITIES, require_captured
from ...core.trace import Trace


def held_bits(trace: Trace) -> np.ndarray:
    """How surprising each held word is: -log2 of its probability, ``[row]`` float64 bits.

    0: the model was certain of it; 1: as likely as a coin's head. A probability that is 0 in
    float32 counts as the smallest one there is (149 bits).

    Raises:
        LookupError: a model without an output layer has no probabilities.
    """
    if trace.produced is None:
        require_captured(trace, PROBABILITIES)
        raise LookupError("This model has no output layer, so no word has a probability.")
    least = float(np.finfo(np.float32).smallest_subnormal)
    return -np.log2(np.maximum(trace.produced.probability.astype(np.float64), least))


def certainty(probabilities: np.ndarray) -> float:
    """How sure a model is of what it writes: the geometric mean of its pieces' probabilities.

    Args:
        probabilities: ``[piece]``, 0 to 1, the end mark's too.

    Returns:
        0 to 1; 0 where there is no piece.
    """
    given = np.asarray(probabilities, np.float64)
    if not given.size:
        return 0.0
    least = float(np.finfo(np.float32).smallest_subnormal)
    return float(np.exp(np.log(np.maximum(given, least)).mean()))


def cost(before: Trace, after: Trace) -> float:
    """How many bits more the held words cost after a change; below 0 they became more probable.

    One bit more: the whole text is half as probable as it was.

    Raises:
        ValueError: the runs speak about different words.
    """
    rows = len(held_bits(before))
    assert before.produced is not None and after.produced is not None
    if before.produced.ids != after.produced.ids[:rows]:
        raise ValueError(
            "The two runs speak about different words; trace the second one with the first one's "
            "target and produced ids."
        )
    return float(held_bits(after)[:rows].sum() - held_bits(before).sum())


def weight_on(weights: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """How much of a row lies on some cells: the mean over queries, ``[head]`` float64.

    Args:
        weights: ``[head, query, key]``.
        cells: bool ``[query, key]``, or ``[key]`` for whole columns.
    """
    return (weights.astype(np.float64) * cells).sum(axis=2).mean(axis=1)


def later(queries: int) -> np.ndarray:
    """Which cells lie in the future of their row: bool ``[query, key]``, key > query."""
    return np.triu(np.ones((queries, queries), bool), 1)
