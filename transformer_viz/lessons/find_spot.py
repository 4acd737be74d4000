"""Places worth a question in a run: found from its numbers, never known beforehand."""

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
MIN_PLAIN_WEIGHT = 0.3  # a link is plain to see from this weight on
#: What a telling link should be, given up one by one: between whole words (not pieces of words),
#: so many tokens apart at least, with such a weight at most.
WISHES = ((True, 2, 0.95), (True, 1, 0.95), (False, 1, 0.95), (False, 1, 1.0), (False, 0, 1.0))


def telling(trace: Trace, block: str) -> Spot:
    """A row that plainly looks at one other word, not its neighbour if there is such a one.

    Rows and columns of special tokens, and of a word that looks at itself, are passed over.

    Raises:
        NotHere: no two ordinary words look at each other.
    """
    for whole, far, most in WISHES:
        found = [
            link for one in trace.blocks(block) for link in _links(trace, one, whole, far, most)
        ]
        if found:
            return max(found, key=lambda pair: pair[0])[1]
    raise NotHere(say(SHORT))


def of_it(trace: Trace, block: str) -> Spot | None:
    """The head whose last "it" looks most at a noun before it, as in the famous picture.

    None where the sentence has no "it" with a noun before it, or the translation no er, sie or es.
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
    """The strongest link of each head of a layer that may be asked about."""
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
    """Which tokens are words to ask about: no marks, no full stops; ``whole``: no pieces either."""
    pieces = Counter(side.words)
    return np.array(
        [
            not special and any(c.isalnum() for c in label) and not (whole and pieces[word] > 1)
            for label, special, word in zip(side.labels, side.special, side.words, strict=True)
        ],
        dtype=bool,
    )


def neighbours(trace: Trace, block: str, step: int) -> dict[tuple[int, int], float]:
    """How much of its attention each head gives, on average, to the word ``step`` further.

    Args:
        trace: a run with the weights of a self-attention block.
        block: ``encoder`` or ``decoder``.
        step: -1 is the word just before, 1 the word just after.

    Returns:
        By (layer, head) the mean over all rows that have such a word.

    Raises:
        NotHere: fewer than three tokens.
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
    """The longest ordinary word of a sentence: its token's number.

    Raises:
        NotHere: the sentence has none.
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
    """The right column and some others to tell it from, in the order of the sentence.

    Args:
        right: its number.
        weights: of the row ``[key]``: half of the others are its next best, half its weakest.
        side: what the columns are called.
        count: how many in all, where there are so many words.

    Raises:
        NotHere: there is no other word.
    """
    words = _ordinary(side)
    order = [int(key) for key in np.argsort(-weights, kind="stable") if words[key]]
    others = [key for key in order if key != right]
    near = others[: count // 2]
    far = [key for key in reversed(others) if key not in near]
    if not others:
        raise NotHere(say(SHORT))
    return sorted([right, *near, *far][:count])
