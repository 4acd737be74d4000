"""Truncation of a text that is too long, at a word boundary."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

#: Characters that belong to the one before: joiner, variation selectors, skin tones.
ADDED = frozenset("\u200d\ufe0e\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
JOINER = "\u200d"  # joins the next character as well
WORD = 60  # maximum word length in characters; longer stretches are cut anywhere


def beginning(text: str, most: int, count: Callable[[str], int]) -> str:
    """Return the longest beginning of a text with at most ``most`` tokens that ends with a word.

    Text without blanks may end after any character, but never before one that belongs to it (an
    accent, a variation selector, a joiner).

    Args:
        text: The text.
        most: Maximum number of tokens.
        count: Returns the number of tokens of a text, specials included; it need not be monotonic.

    Raises:
        ValueError: Not even the first word fits.
    """
    fits, over = 0, 1
    while over <= len(text) and count(text[:over]) <= most:
        fits, over = over, over * 2
    over = min(over, len(text) + 1)
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if count(text[:middle]) <= most else (fits, middle)
    end = _ended(text, fits)
    while end and count(text[:end]) > most:  # a text may have fewer tokens than its beginning
        end = _ended(text, end - 1)
    kept = text[:end].rstrip()
    if not kept:
        raise ValueError(f"Not even the first word of this text has room in {most:,} tokens.")
    return kept


def _ended(text: str, end: int) -> int:
    """Return the last position up to ``end`` where a word, or else a character, ends."""
    if end >= len(text) or text[end].isspace():
        return end
    for place in range(end, max(0, end - WORD), -1):
        if text[place - 1].isspace():
            return place - 1
    while end and _goes_on(text[end - 1], text[end]):
        end -= 1
    return end


def _goes_on(before: str, after: str) -> bool:
    """Return True if two code points belong to one visible character."""
    return bool(unicodedata.combining(after)) or after in ADDED or before == JOINER
