"""Search for the head in which "it" has the largest weight on a noun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from .word_merging import REPEATED

#: Determiners before a noun; an adjective in between is not handled.
DETERMINERS = frozenset(
    (
        *("the", "a", "an", "my", "your", "his", "her", "its", "our", "their"),
        *("this", "that", "these", "those", "every", "each", "some", "no", "one"),
    )
)


@dataclass(frozen=True)
class Word:
    """Word of a sentence: its text, and the indices of its tokens."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Look:
    """Head with the largest weight on a word: ``site`` with head, the word, the weight."""

    site: Site
    word: Word
    weight: float


def words(tokens: Tokens) -> list[Word]:
    """Return the whole words of a sentence, without special tokens."""
    parts: dict[int, list[int]] = {}
    for token, (word, special) in enumerate(zip(tokens.words, tokens.special, strict=True)):
        if not special:
            parts.setdefault(word, []).append(token)
    return [
        Word("".join(REPEATED.sub("", tokens.labels[one]) for one in found), tuple(found))
        for found in parts.values()
    ]


def its(tokens: Tokens) -> list[Word]:
    """Return every "it" of an English sentence."""
    return [word for word in words(tokens) if word.text.lower() == "it"]


def nouns(tokens: Tokens, it: Word) -> list[Word]:
    """Return the words before "it" that follow a determiner directly.

    Sentences are not parsed: in "the old tree" this is "old".
    """
    return [
        word
        for previous, word in pairwise(_before(tokens, it))
        if previous.text.lower() in DETERMINERS and word.text.isalpha()
    ]


def candidates(tokens: Tokens, it: Word) -> list[Word]:
    """Return possible referents of "it": the nouns, or, without any, all words before it."""
    others = [word for word in _before(tokens, it) if word.text.isalpha()]
    return nouns(tokens, it) or others


def _before(tokens: Tokens, it: Word) -> list[Word]:
    return [word for word in words(tokens) if word.tokens[-1] < it.tokens[0]]


def weight_on(weights: np.ndarray, row: Sequence[int], word: Word) -> np.ndarray:
    """Return each head's weight on a word: its tokens summed, the rows averaged.

    Args:
        weights: ``[head, query, key]``.
        row: Query indices.
        word: The word.

    Returns:
        ``[head]`` float64.
    """
    chosen = weights[:, list(row)][..., list(word.tokens)].astype(np.float64)
    return np.asarray(chosen.sum(axis=-1).mean(axis=-1))


def strongest(
    trace: Trace, block: str, row: Sequence[int], candidates: Sequence[Word]
) -> Look | None:
    """Return the head of a map with the largest weight on one of the words; None without any.

    Args:
        trace: Run with the weights of all layers of the map.
        block: ``encoder``, ``decoder`` or ``cross``.
        row: Query tokens.
        candidates: Words as keys.
    """
    found: Look | None = None
    for attention in trace.blocks(block) if block in trace.maps else ():
        for word in candidates:
            on_word = weight_on(attention.weights, row, word)
            head = int(on_word.argmax())
            if found is None or on_word[head] > found.weight:
                found = Look(replace(attention.site, head=head), word, float(on_word[head]))
    return found
