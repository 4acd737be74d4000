"""Significance tests: Student's t, and Holm's correction for many tests."""

from __future__ import annotations

import numpy as np


def two_sided(t: np.ndarray, df: int) -> np.ndarray:
    """Return the probability of at least this ``|t|`` under Student's t, ``[column]`` float64.

    Exact for integer degrees of freedom from 1 (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    """
    angle = np.arctan(np.abs(np.asarray(t, np.float64)) / np.sqrt(df))
    cosine, term = np.cos(angle) ** 2, np.ones_like(angle)
    if df % 2:
        term = np.cos(angle)
        total = np.zeros_like(angle)
        for step in range(1, df - 1, 2):
            total = total + term
            term = term * cosine * (step + 1) / (step + 2)
        inside = 2 / np.pi * (angle + np.sin(angle) * total)
    else:
        total = np.zeros_like(angle)
        for step in range(0, df - 1, 2):
            total = total + term
            term = term * cosine * (step + 1) / (step + 2)
        inside = np.sin(angle) * total
    return np.clip(1 - inside, 0.0, 1.0)


def bootstrap_p(effect: np.ndarray, draws: np.ndarray, sentences: int) -> np.ndarray:
    """Return the probability of an effect this far from 0 by chance, ``[column]`` float64.

    The effect in units of the draws' standard deviation follows Student's t with one degree of
    freedom less than sentences. A thousand draws alone cannot resolve the small probabilities
    needed for many tests. An effect of 0 in every draw, or a single sentence, gives 1.

    Args:
        effect: ``[column]``.
        draws: Effect of each reweighting, ``[draw, column]``.
        sentences: Number of sentences.
    """
    if sentences < 2:
        return np.ones(np.shape(effect))
    spread = draws.std(axis=0, ddof=1) * np.sqrt(sentences / (sentences - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(effect == 0, 0.0, effect / spread)
    return two_sided(t, sentences - 1)


def holm(p: np.ndarray) -> np.ndarray:
    """Return probabilities corrected for the number of tests, ``[test]`` float64, at most 1.

    The smallest is multiplied by their number, the next by one less, and none becomes smaller than
    its predecessor (Holm, S. 1979, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6(2)).
    """
    p = np.asarray(p, np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    found = np.empty_like(p)
    found[order] = np.minimum(stepped, 1.0)
    return found
