"""The deletion test: which words a method would hide first, and what comes of hiding them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def by_words(values: np.ndarray, words: Sequence[int]) -> dict[int, float]:
    """The sum of the values of each word's tokens, by the number of the word.

    Args:
        values: ``[token]``; a value that is not a number counts as the least.
        words: for each token the number of its word.
    """
    found: dict[int, float] = {}
    for value, word in zip(values, words, strict=True):
        found[word] = found.get(word, 0.0) + (-np.inf if np.isnan(value) else float(value))
    return found


def ordered(scores: dict[int, float]) -> list[int]:
    """Words from the largest score to the smallest; the earlier one first where they are equal."""
    return sorted(scores, key=lambda word: (-scores[word], word))


def random_orders(words: Sequence[int], draws: int, seed: int) -> list[list[int]]:
    """Words in random orders."""
    generator = np.random.default_rng(seed)
    return [[words[n] for n in generator.permutation(len(words))] for _ in range(draws)]
