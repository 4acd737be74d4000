"""Surprisal of fixed output tokens, and its change by an edit."""

from __future__ import annotations

import numpy as np

from ...core.given.facts import PROBABILITIES, require_captured
from ...core.trace import Trace


def held_bits(trace: Trace) -> np.ndarray:
    """Return the surprisal of each fixed token, -log2 of its probability, ``[row]`` float64 bits.

    0 means certain; 1 is a coin toss. A probability of 0 in float32 counts as the smallest number
    above 0 (149 bits).

    Raises:
        LookupError: A model without an output layer has no probabilities.
    """
    if trace.produced is None:
        require_captured(trace, PROBABILITIES)
        raise LookupError("This model has no output layer, so no word has a probability.")
    least = float(np.finfo(np.float32).smallest_subnormal)
    return -np.log2(np.maximum(trace.produced.probability.astype(np.float64), least))


def certainty(probabilities: np.ndarray) -> float:
    """Return the geometric mean of the pieces' probabilities.

    Args:
        probabilities: ``[piece]``, 0 to 1, including the end mark.

    Returns:
        0 to 1; 0 without pieces.
    """
    given = np.asarray(probabilities, np.float64)
    if not given.size:
        return 0.0
    least = float(np.finfo(np.float32).smallest_subnormal)
    return float(np.exp(np.log(np.maximum(given, least)).mean()))


def cost(before: Trace, after: Trace) -> float:
    """Return the surprisal of the fixed tokens after a change minus before, in bits.

    Negative if they became more probable; 1 bit halves the probability of the whole text.

    Raises:
        ValueError: The runs have different tokens.
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
    """Return the weight on some cells: the mean over queries, ``[head]`` float64.

    Args:
        weights: ``[head, query, key]``.
        cells: Bool ``[query, key]``, or ``[key]`` for whole columns.
    """
    return (weights.astype(np.float64) * cells).sum(axis=2).mean(axis=1)


def later(queries: int) -> np.ndarray:
    """Return True for cells in the future of their row: bool ``[query, key]``, key > query."""
    return np.triu(np.ones((queries, queries), bool), 1)
