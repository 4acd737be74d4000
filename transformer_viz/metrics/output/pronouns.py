"""Which German pronoun for "it": where it stands, how plainly two are told apart, what that needs.

er, sie and es follow the gender of the noun that "it" stands for, so what a model prefers where one
of them comes shows which noun it took.
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
ENDS = '.!?:;"“”„»«'  # a word after one of these may have a capital letter


@dataclass(frozen=True)
class Place:
    """Where a pronoun stands: the German before and behind it, and er, sie, es as written there.

    ``words`` have capital letters at the beginning of a sentence.
    """

    before: str
    behind: str
    words: tuple[str, ...] = WORDS


def places(german: str) -> list[Place]:
    """Where er, sie or es stand in a German text, in its order.

    A capital letter inside a sentence makes *Sie* "you", so such a word is passed over.
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
    """The decoder's last row that writes er, sie or es, a whole word; None: it writes none."""
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
    """By how many bits the right pronoun is more probable than the wrong one; below 0: less.

    Args:
        logs: natural logarithms of probabilities ``[..., sentence, word]``.
        right: for each sentence the number of its word.
        wrong: the same of the word it is compared with.

    Returns:
        ``[..., sentence]`` float64: log2 p(right) - log2 p(wrong).
    """
    rows = np.arange(logs.shape[-2])
    return np.asarray((logs[..., rows, right] - logs[..., rows, wrong]) / np.log(2.0))


def preferred(logs: np.ndarray) -> tuple[int, int]:
    """What a pair of sentences is taken to be about: a word each, never the same one.

    The first has its most probable word; the second too, or, where that is the same one, the word
    that gains most from the first sentence to the second.

    Args:
        logs: natural logarithms of probabilities ``[sentence, word]``, of two sentences.
    """
    first, second = (int(row.argmax()) for row in logs)
    if first == second:
        gained = logs[1] - logs[0]
        gained[first] = -np.inf
        second = int(gained.argmax())
    return first, second


def drawn(ranked: Sequence[int], count: int, seed: int) -> list[int]:
    """So many by chance of those behind the first ``count`` of a ranking; a seed draws the same."""
    return random.Random(seed).sample(list(ranked[count:]), count)
