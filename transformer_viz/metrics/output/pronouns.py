"""German pronouns for "it": positions, margins between two pronouns, comparison of sentences.

er, sie and es follow the gender of the noun that "it" refers to, so the preferred pronoun reveals
the noun that the model chose.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.trace import Trace
from ..attention.word_merging import REPEATED, produced_axis

WORDS = ("er", "sie", "es")
IT = re.compile(r"\bit\b", re.IGNORECASE)
PRONOUN = re.compile(r"\b(?:er|sie|es)\b", re.IGNORECASE)
ENDS = '.!?:;"“”„»«'  # a word after one of these may be capitalized


@dataclass(frozen=True)
class Place:
    """Position of a pronoun: the German before and after it, and er, sie, es as spelled there.

    ``words`` are capitalized at the beginning of a sentence.
    """

    before: str
    behind: str
    words: tuple[str, ...] = WORDS


def places(german: str) -> list[Place]:
    """Return the positions of er, sie or es in a German text, in order.

    Within a sentence, capitalized *Sie* means "you", so it is skipped.
    """
    found = []
    for match in PRONOUN.finditer(german):
        before = german[: match.start()].rstrip()
        begins = not before or before[-1] in ENDS
        if match[0].islower() or begins:
            capital = not match[0].islower()
            words = tuple(word.title() for word in WORDS) if capital else WORDS
            found.append(Place(before, german[match.end() :], words))
    return found


def pronoun_row(trace: Trace) -> int | None:
    """Return the decoder's last row that predicts er, sie or es as a whole word, or None."""
    if trace.produced is None or trace.target is None:
        return None
    side = produced_axis(trace.produced, trace.target)
    plain = [REPEATED.sub("", label) for label in side.labels]
    for row in reversed(range(len(plain))):
        begins = row == 0 or plain[row - 1][-1:] in ENDS
        alone = side.words.count(side.words[row]) == 1
        written = plain[row].islower() or begins
        if alone and written and plain[row].lower() in WORDS:
            return row
    return None


def margins(logs: np.ndarray, right: Sequence[int], wrong: Sequence[int]) -> np.ndarray:
    """Return log2 p(right) - log2 p(wrong) in bits; negative if the wrong pronoun is preferred.

    Args:
        logs: Natural logarithms of probabilities ``[..., sentence, word]``.
        right: Index of each sentence's right word.
        wrong: Index of the word it is compared with.

    Returns:
        ``[..., sentence]`` float64.
    """
    rows = np.arange(logs.shape[-2])
    return np.asarray((logs[..., rows, right] - logs[..., rows, wrong]) / np.log(2.0))


def preferred(logs: np.ndarray) -> tuple[int, int]:
    """Return two different words that a pair of sentences is compared by.

    The first sentence has its most probable word. So has the second, or, if that is the same, the
    word that gains most from the first sentence to the second.

    Args:
        logs: Natural logarithms of probabilities ``[sentence, word]``, of two sentences.
    """
    first, second = (int(row.argmax()) for row in logs)
    if first == second:
        gained = logs[1] - logs[0]
        gained[first] = -np.inf
        second = int(gained.argmax())
    return first, second


def drawn(ranked: Sequence[int], count: int, seed: int) -> list[int]:
    """Return ``count`` random items after the first ``count`` of a ranking; fixed by the seed."""
    return random.Random(seed).sample(list(ranked[count:]), count)
