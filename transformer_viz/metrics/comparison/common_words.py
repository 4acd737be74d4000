"""The words that two readings of text have in common, and which tokens of each make them.

Three cases. The same tokens: each stands for itself. One text in other pieces (two tokenizers): it
is cut where both cut it, by characters, so that scripts without blanks serve as well. Two texts:
their words are matched in order, as swaps match them.
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

#: How Unicode's names begin of characters whose scripts set no blanks between words.
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


@dataclass(frozen=True)
class Word:
    """A word of two readings: its tokens in each, its text in each, and whether both are equal.

    A side that does not have it has no tokens. ``special`` where no side has it as a word.
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    label_a: str
    label_b: str
    same: bool
    special: bool

    @property
    def common(self) -> bool:
        """Whether both sides have it."""
        return bool(self.a and self.b)


@dataclass(frozen=True)
class CommonWords:
    """All words of two readings, those of both in the order of the first; ``how`` they were found.

    ``how`` is ``tokens`` (the same tokens), ``pieces`` (one text, cut where both cut it) or
    ``words`` (two texts, words matched in order).
    """

    words: tuple[Word, ...]
    how: str

    @property
    def shared(self) -> tuple[Word, ...]:
        """The words that both sides have: the rows or columns of a map on common ground."""
        return tuple(word for word in self.words if word.common)

    @property
    def lone(self) -> tuple[Word, ...]:
        """The words that one side alone has."""
        return tuple(word for word in self.words if not word.common)

    @property
    def any_same(self) -> bool:
        """Whether a word is the same on both sides; of two texts a mark such as a stop is none."""
        return any(
            word.same and not word.special and (self.how != "words" or _has_letters(word.label_a))
            for word in self.shared
        )

    def members(self, side: str, tokens: int) -> np.ndarray:
        """Which token of a side (``a`` or ``b``) is in which shared word, 0 and 1
        ``[word, token]``."""
        table = np.zeros((len(self.shared), tokens))
        for row, word in enumerate(self.shared):
            table[row, list(getattr(word, side))] = 1
        return table


def _has_letters(text: str) -> bool:
    return any(c.isalnum() for c in text)


def common_words(a: Tokens, b: Tokens) -> CommonWords:
    """The words that two readings have in common."""
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
    """A token's characters without case, accents, blanks and forms, which tokenizers may change.

    Of a character of several bytes the last token has it, those before it nothing.
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
    """Tokens with the characters at which they end, ``(token, end)``."""
    spans, end = [], 0
    for token in tokens:
        end += len(_plain(side, token))
        spans.append((token, end))
    return spans


def _cut(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The common refinement: tokens between two ends that both sides have."""
    ends = sorted({end for _, end in a} & {end for _, end in b} | {0})
    return [
        (_between(a, start, end, ends[-1]), _between(b, start, end, ends[-1]))
        for start, end in pairwise(ends)
    ]


def _between(spans: list[tuple[int, int]], start: int, end: int, last: int) -> tuple[int, ...]:
    """The tokens of a piece of text; one without characters goes with what follows it."""
    found = []
    for place, (token, here) in enumerate(spans):
        width = here - (spans[place - 1][1] if place else 0)
        ahead = here + (0 if width or here == last else 1)
        if start < ahead <= end:
            found.append(token)
    return tuple(found)


def _specials(a: Tokens, b: Tokens) -> Pairs:
    """Special tokens of the same name, in their order."""
    ours = [n for n in range(len(a)) if a.special[n]]
    theirs = [n for n in range(len(b)) if b.special[n]]
    found = matched([a.pieces[n] for n in ours], [b.pieces[n] for n in theirs])
    return [
        ((ours[i],), (theirs[j],), True)
        for i, j in enumerate(found)
        if j is not None and a.pieces[ours[i]] == b.pieces[theirs[j]]
    ]


def _matched_units(a: Tokens, b: Tokens) -> Pairs:
    """Words of two texts: equal ones in order, and one by one what stands between them."""
    ours, theirs = _units(a), _units(b)
    names = [[_name(side, unit) for unit in units] for side, units in ((a, ours), (b, theirs))]
    pairs: Pairs = []
    for i, j in enumerate(matched(*names)):
        if j is None:
            continue
        same = names[0][i] == names[1][j]
        if same or not (names[0][i][0] or names[1][j][0]):  # a mark has no word as counterpart
            pairs.append((ours[i], theirs[j], same))
    return pairs


def _name(side: Tokens, unit: tuple[int, ...]) -> tuple[bool, str]:
    """Whether a word is a special token, and its text as it is compared."""
    if side.special[unit[0]]:
        return True, side.pieces[unit[0]]
    return False, "".join(_plain(side, token) for token in unit) or joined(_labels(side, unit))


def _units(side: Tokens) -> list[tuple[int, ...]]:
    """The words of a sentence; where a script sets no blanks, its pieces."""
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
    """The shared words in the order of the first side, then what each has alone, word by word."""
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
