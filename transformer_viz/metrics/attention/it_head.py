"""Which head's "it" looks most at a noun: the famous picture, found from the weights of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from .word_merging import REPEATED

#: A noun stands behind one of these; an adjective may come between, which is not seen here.
DETERMINERS = frozenset(
    (
        *("the", "a", "an", "my", "your", "his", "her", "its", "our", "their"),
        *("this", "that", "these", "those", "every", "each", "some", "no", "one"),
    )
)


@dataclass(frozen=True)
class Word:
    """A word of a sentence: its text, and the numbers of its tokens."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Look:
    """The head that gives a word the most weight: ``site`` with its head, the word, the weight."""

    site: Site
    word: Word
    weight: float


def words(tokens: Tokens) -> list[Word]:
    """The whole words of a sentence, special tokens left out."""
    parts: dict[int, list[int]] = {}
    for token, (word, special) in enumerate(zip(tokens.words, tokens.special, strict=True)):
        if not special:
            parts.setdefault(word, []).append(token)
    return [
        Word("".join(REPEATED.sub("", tokens.labels[one]) for one in found), tuple(found))
        for found in parts.values()
    ]


def its(tokens: Tokens) -> list[Word]:
    """Every "it" of an English sentence."""
    return [word for word in words(tokens) if word.text.lower() == "it"]


def nouns(tokens: Tokens, it: Word) -> list[Word]:
    """The words before "it" that stand right behind a determiner.

    A sentence is not parsed: of "the old tree" this is "old".
    """
    return [
        word
        for previous, word in pairwise(_before(tokens, it))
        if previous.text.lower() in DETERMINERS and word.text.isalpha()
    ]


def candidates(tokens: Tokens, it: Word) -> list[Word]:
    """What "it" may stand for: the nouns, or, without any, all words before it."""
    others = [word for word in _before(tokens, it) if word.text.isalpha()]
    return nouns(tokens, it) or others


def _before(tokens: Tokens, it: Word) -> list[Word]:
    return [word for word in words(tokens) if word.tokens[-1] < it.tokens[0]]


def weight_on(weights: np.ndarray, row: Sequence[int], word: Word) -> np.ndarray:
    """The weight that each head gives a word: its tokens summed, the rows averaged.

    Args:
        weights: ``[head, query, key]``.
        row: the queries.

    Returns:
        ``[head]`` float64.
    """
    chosen = weights[:, list(row)][..., list(word.tokens)].astype(np.float64)
    return np.asarray(chosen.sum(axis=-1).mean(axis=-1))


def strongest(
    trace: Trace, block: str, row: Sequence[int], candidates: Sequence[Word]
) -> Look | None:
    """The head of a map that gives one of some words the most weight; None without a word or map.

    Args:
        trace: a run with the weights of all layers of the map.
        block: ``encoder``, ``decoder`` or ``cross``.
        row: the tokens that look.
        candidates: the words that they may look at.
    """
    found: Look | None = None
    for attention in trace.blocks(block) if block in trace.maps else ():
        for word in candidates:
            on_word = weight_on(attention.weights, row, word)
            head = int(on_word.argmax())
            if found is None or on_word[head] > found.weight:
                found = Look(replace(attention.site, head=head), word, float(on_word[head]))
    return found
