"""Shared words of two tokenized texts, and their tokens in each.

Three cases. Equal tokens are each a word. One text with two tokenizations is cut where both cut it,
by characters, which also works for scripts without blanks. Words of two texts are matched in order,
as for patching.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...core.editing.token_match import matched
from ...core.trace_parts import Tokens
from ..attention.word_merging import PART, REPEATED, SPACE, joined

#: Prefixes of Unicode names of characters in scripts without blanks between words.
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


@dataclass(frozen=True)
class Word:
    """Word of two texts: its tokens and text in each; ``same`` is True if both are equal.

    A side that lacks it has no tokens. ``special`` is True if it is no word on either side.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    label_a: str
    label_b: str
    same: bool
    special: bool

    @property
    def common(self) -> bool:
        """True if both sides have it."""
        return bool(self.a and self.b)


@dataclass(frozen=True)
class CommonWords:
    """All words of two texts, shared ones in the order of the first.

    ``how`` is ``tokens`` (equal tokens), ``pieces`` (one text, cut where both cut it) or ``words``
    (two texts, words matched in order).
    """

    words: tuple[Word, ...]
    how: str

    @property
    def shared(self) -> tuple[Word, ...]:
        """Words of both sides: the rows or columns of a shared map."""
        return tuple(word for word in self.words if word.common)

    @property
    def lone(self) -> tuple[Word, ...]:
        """Words of only one side."""
        return tuple(word for word in self.words if not word.common)

    @property
    def any_same(self) -> bool:
        """True if a word is the same on both sides; in two texts, punctuation does not count."""
        return any(
            word.same and not word.special and (self.how != "words" or _has_letters(word.label_a))
            for word in self.shared
        )

    def members(self, side: str, tokens: int) -> np.ndarray:
        """Return the tokens of side ``a`` or ``b`` per shared word, 0 and 1 ``[word, token]``."""
        table = np.zeros((len(self.shared), tokens))
        for row, word in enumerate(self.shared):
            table[row, list(getattr(word, side))] = 1
        return table


def _has_letters(text: str) -> bool:
    return any(c.isalnum() for c in text)


def common_words(a: Tokens, b: Tokens) -> CommonWords:
    """Return the words shared by two tokenized texts, and the others."""
    if a.pieces == b.pieces:
        same = [
            Word((n,), (n,), a.labels[n], b.labels[n], True, a.special[n] and b.special[n])
            for n in range(len(a))
        ]
        return CommonWords(tuple(same), "tokens")
    ours, theirs = _content(a), _content(b)
    text = "".join(_plain(a, n) for n in ours)
    if text and text == "".join(_plain(b, n) for n in theirs):
        pairs = [
            (left, right, True) for left, right in _cut(_spans(a, ours), _spans(b, theirs))
        ] + _specials(a, b)
        return CommonWords(_ordered(a, b, pairs), "pieces")
    return CommonWords(_ordered(a, b, _matched_units(a, b)), "words")


Pairs = list[tuple[tuple[int, ...], tuple[int, ...], bool]]


def _content(side: Tokens) -> list[int]:
    return [n for n in range(len(side)) if not side.special[n]]


def _plain(side: Tokens, token: int) -> str:
    """Return a token's characters without case, accents, blanks and variant forms.

    Tokenizers may change these. A character of several bytes belongs to its last token.
    """
    label = REPEATED.sub("", side.labels[token])
    part = PART.search(label)
    if part is not None:
        first, of = part[0].split("/")
        label = PART.sub("", label) if first.strip() == of else ""
    parted = unicodedata.normalize("NFKD", label.replace(SPACE, ""))
    kept = (c for c in parted if not unicodedata.combining(c) and not c.isspace() and c != "◌")
    return "".join(kept).casefold()


def _spans(side: Tokens, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """Return tokens with their end position in characters, ``(token, end)``."""
    spans, end = [], 0
    for token in tokens:
        end += len(_plain(side, token))
        spans.append((token, end))
    return spans


def _cut(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the common refinement: tokens between two ends of both sides."""
    ends = sorted({end for _, end in a} & {end for _, end in b} | {0})
    return [
        (_between(a, start, end, ends[-1]), _between(b, start, end, ends[-1]))
        for start, end in pairwise(ends)
    ]


def _between(spans: list[tuple[int, int]], start: int, end: int, last: int) -> tuple[int, ...]:
    """Return the tokens of a piece of text; one without characters belongs to the next."""
    found = []
    for place, (token, here) in enumerate(spans):
        width = here - (spans[place - 1][1] if place else 0)
        ahead = here + (0 if width or here == last else 1)
        if start < ahead <= end:
            found.append(token)
    return tuple(found)


def _specials(a: Tokens, b: Tokens) -> Pairs:
    """Return pairs of special tokens of the same name, in order."""
    ours = [n for n in range(len(a)) if a.special[n]]
    theirs = [n for n in range(len(b)) if b.special[n]]
    found = matched([a.pieces[n] for n in ours], [b.pieces[n] for n in theirs])
    return [
        ((ours[i],), (theirs[j],), True)
        for i, j in enumerate(found)
        if j is not None and a.pieces[ours[i]] == b.pieces[theirs[j]]
    ]


def _matched_units(a: Tokens, b: Tokens) -> Pairs:
    """Return matched words of two texts: equal ones in order, and those between them one by one."""
    ours, theirs = _units(a), _units(b)
    names = [[_name(side, unit) for unit in units] for side, units in ((a, ours), (b, theirs))]
    pairs: Pairs = []
    for i, j in enumerate(matched(*names)):
        if j is None:
            continue
        same = names[0][i] == names[1][j]
        if same or not (names[0][i][0] or names[1][j][0]):  # not a word with a special token
            pairs.append((ours[i], theirs[j], same))
    return pairs


def _name(side: Tokens, unit: tuple[int, ...]) -> tuple[bool, str]:
    """Return True if a word is a special token, and its text for comparison."""
    if side.special[unit[0]]:
        return True, side.pieces[unit[0]]
    return False, "".join(_plain(side, token) for token in unit) or joined(_labels(side, unit))


def _units(side: Tokens) -> list[tuple[int, ...]]:
    """Return the words of a sentence; in scripts without blanks, its pieces."""
    words: dict[int, list[int]] = {}
    for token, word in enumerate(side.words):
        words.setdefault(word, []).append(token)
    found: list[tuple[int, ...]] = []
    for tokens in words.values():
        if any(_unspaced(_plain(side, token)) for token in tokens):
            found += [(token,) for token in tokens]
        else:
            found.append(tuple(tokens))
    return found


def _unspaced(text: str) -> bool:
    return any(unicodedata.name(c, "").startswith(UNSPACED) for c in text)


def _labels(side: Tokens, tokens: Sequence[int]) -> list[str]:
    return [side.labels[token] for token in tokens]


def _ordered(a: Tokens, b: Tokens, pairs: Pairs) -> tuple[Word, ...]:
    """Return the shared words in the order of the first side, then the unshared ones."""
    shared = [_word(a, b, *pair) for pair in sorted(pairs)]
    used_a = {token for left, _, _ in pairs for token in left}
    used_b = {token for _, right, _ in pairs for token in right}
    own = [unit for unit in _units(a) if not used_a & set(unit)]
    other = [unit for unit in _units(b) if not used_b & set(unit)]
    lone_a = [_word(a, b, unit, (), False) for unit in own]
    return (*shared, *lone_a, *(_word(a, b, (), unit, False) for unit in other))


def _word(a: Tokens, b: Tokens, left: tuple[int, ...], right: tuple[int, ...], same: bool) -> Word:
    special = all(a.special[n] for n in left) and all(b.special[n] for n in right)
    labels = (joined(_labels(a, left)), joined(_labels(b, right)))
    return Word(left, right, *labels, same, special)
