"""The beginning of a text that is too long: as many words as there is room for."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

#: Belong to the character before them: joiner, variation selectors, tones of skin.
ADDED = frozenset("\u200d\ufe0e\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
JOINER = "\u200d"  # and what follows it, too
WORD = 60  # characters that a word has at most; a longer stretch without a blank is cut anywhere


def beginning(text: str, most: int, count: Callable[[str], int]) -> str:
    """The longest beginning of a text that has at most ``most`` tokens, ended where a word ends.

    What is written without blanks is ended after any character, never before one that belongs to
    the character before it (an accent, a variation selector, a joiner).

    Args:
        count: the tokens of a text, specials included; it need not grow with each character.

    Raises:
        ValueError: not even the first word has room.
    """
    fits, over = 0, 1
    while over <= len(text) and count(text[:over]) <= most:
        fits, over = over, over * 2
    over = min(over, len(text) + 1)
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if count(text[:middle]) <= most else (fits, middle)
    end = _ended(text, fits)
    while end and count(text[:end]) > most:  # a piece may be of less tokens than its beginning
        end = _ended(text, end - 1)
    kept = text[:end].rstrip()
    if not kept:
        raise ValueError(f"Not even the first word of this text has room in {most:,} tokens.")
    return kept


def _ended(text: str, end: int) -> int:
    """The last place up to ``end`` where a word, or else a character, ends."""
    if end >= len(text) or text[end].isspace():
        return end
    for place in range(end, max(0, end - WORD), -1):
        if text[place - 1].isspace():
            return place - 1
    while end and _goes_on(text[end - 1], text[end]):
        end -= 1
    return end


def _goes_on(before: str, after: str) -> bool:
    """Whether two characters are of one that is seen."""
    return bool(unicodedata.combining(after)) or after in ADDED or before == JOINER
