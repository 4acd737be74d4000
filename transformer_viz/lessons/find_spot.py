"""Spots of a run for questions, selected from its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from ..core.trace import Trace
from ..core.trace_parts import Attention
from ..i18n import mark, say
from ..metrics.attention.it_head import Word, its, nouns, strongest
from ..metrics.attention.map_cells import axes
from ..metrics.attention.word_merging import Axis
from ..metrics.output.pronouns import pronoun_row
from .lesson_types import NotHere, Spot

SHORT = mark("This sentence is too short for this question. Type a longer one above.")
MIN_PLAIN_WEIGHT = 0.3  # smallest weight of a clearly visible link
#: Criteria for a link, relaxed step by step: between whole words (not pieces of words), smallest
#: distance in tokens, largest weight.
WISHES = ((True, 2, 0.95), (True, 1, 0.95), (False, 1, 0.95), (False, 1, 1.0), (False, 0, 1.0))


def telling(trace: Trace, block: str) -> Spot:
    """Return a row that clearly attends to one other token, not its neighbour if possible.

    Rows and columns of special tokens, and tokens that attend to themselves, are skipped.

    Raises:
        NotHere: No two ordinary words attend to each other.
    """
    for whole, far, most in WISHES:
        found = [
            link for one in trace.blocks(block) for link in _links(trace, one, whole, far, most)
        ]
        if found:
            return max(found, key=lambda pair: pair[0])[1]
    raise NotHere(say(SHORT))


def of_it(trace: Trace, block: str) -> Spot | None:
    """Return the head whose last "it" attends most to an earlier noun, as in the famous figure.

    None if the sentence has no "it" after a noun, or the translation no er, sie or es.
    """
    found = its(trace.source)
    if block != "encoder" or not found or pronoun_row(trace) is None:
        return None
    it = found[-1]
    cells = [Word(word.text, (one,)) for word in nouns(trace.source, it) for one in word.tokens]
    look = strongest(trace, block, it.tokens[-1:], cells)
    if look is None or look.site.head is None:
        return None
    key = look.word.tokens[0]
    return Spot(block, look.site.layer, look.site.head, it.tokens[-1], key)


def _links(
    trace: Trace, attention: Attention, whole: bool, far: int, most: float
) -> Iterator[tuple[float, Spot]]:
    """Yield the strongest link of each head of a layer that meets the criteria."""
    rows, columns = axes(trace, attention)
    allowed = _ordinary(rows, whole)[:, None] & _ordinary(columns, whole)[None, :]
    if attention.site.block == "self":
        offset = np.arange(len(rows))[:, None] - np.arange(len(columns))[None, :]
        allowed &= np.abs(offset) >= max(far, 1)
    for head, weights in enumerate(attention.weights):
        fit = np.where(allowed & (weights <= most), weights, 0.0)
        fit = np.where(weights.argmax(axis=1)[:, None] == np.arange(len(columns)), fit, 0.0)
        row, key = np.unravel_index(int(fit.argmax()), fit.shape)
        if fit[row, key] > (MIN_PLAIN_WEIGHT if far else 0):
            site = attention.site
            yield float(fit[row, key]), Spot(site.map, site.layer, head, int(row), int(key))


def _ordinary(side: Axis, whole: bool = False) -> np.ndarray:
    """Return a mask of ordinary words: no special tokens or punctuation; ``whole``: no pieces."""
    pieces = Counter(side.words)
    return np.array(
        [
            not special and any(c.isalnum() for c in label) and not (whole and pieces[word] > 1)
            for label, special, word in zip(side.labels, side.special, side.words, strict=True)
        ],
        dtype=bool,
    )


def neighbours(trace: Trace, block: str, step: int) -> dict[tuple[int, int], float]:
    """Return each head's mean attention to the token ``step`` positions further.

    Args:
        trace: A run with the weights of a self-attention block.
        block: ``encoder`` or ``decoder``.
        step: -1 for the previous token, 1 for the next one.

    Returns:
        The mean over all rows that have such a token, by (layer, head).

    Raises:
        NotHere: Fewer than three tokens.
    """
    found = {}
    for attention in trace.blocks(block):
        if attention.weights.shape[1] < 3:
            raise NotHere(say(SHORT))
        for head, weights in enumerate(attention.weights):
            share = float(np.diagonal(weights, step).mean(dtype=np.float64))
            found[attention.site.layer, head] = share
    return found


def some_word(trace: Trace, stack: str) -> int:
    """Return the token index of the longest ordinary word of a sentence.

    Raises:
        NotHere: The sentence has none.
    """
    tokens = trace.words_of(stack)
    lengths = {
        place: len(label)
        for place, label in enumerate(tokens.labels)
        if not tokens.special[place] and label.isalpha()
    }
    if not lengths:
        raise NotHere(say(SHORT))
    return max(lengths, key=lambda place: (lengths[place], -place))


def choices(right: int, weights: np.ndarray, side: Axis, count: int = 4) -> list[int]:
    """Return the right column and some distractors, in sentence order.

    Args:
        right: Index of the right column.
        weights: Weights of the row ``[key]``. Half of the distractors have the next largest
            weights, half the smallest.
        side: Labels of the columns.
        count: Number of options, if there are so many words.

    Raises:
        NotHere: There is no other word.
    """
    words = _ordinary(side)
    order = [int(key) for key in np.argsort(-weights, kind="stable") if words[key]]
    others = [key for key in order if key != right]
    near = others[: count // 2]
    far = [key for key in reversed(others) if key not in near]
    if not others:
        raise NotHere(say(SHORT))
    return sorted([right, *near, *far][:count])
