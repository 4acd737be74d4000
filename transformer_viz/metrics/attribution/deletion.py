"""Deletion test: order in which a method hides words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def by_words(values: np.ndarray, words: Sequence[int]) -> dict[int, float]:
    """Return the sum of the values of each word's tokens, by word number.

    Args:
        values: ``[token]``; NaN counts as the smallest value.
        words: Word number of each token.
    """
    found: dict[int, float] = {}
    for value, word in zip(values, words, strict=True):
        found[word] = found.get(word, 0.0) + (-np.inf if np.isnan(value) else float(value))
    return found


def ordered(scores: dict[int, float]) -> list[int]:
    """Return words from the largest score to the smallest; ties keep their order."""
    return sorted(scores, key=lambda word: (-scores[word], word))


def random_orders(words: Sequence[int], draws: int, seed: int) -> list[list[int]]:
    """Return words in random orders."""
    generator = np.random.default_rng(seed)
    return [[words[n] for n in generator.permutation(len(words))] for _ in range(draws)]
