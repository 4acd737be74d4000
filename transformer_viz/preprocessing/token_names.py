"""Names of a vocabulary's tokens, and reordering of a sentence's tokens."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import overload
from weakref import ref

from ..core.trace_parts import Tokens
from .tokenizers import PlainIds, Tokenizer, piece

ORDERS = 100  # number of seeds with a different order
TRIES = 50  # shuffles before an order counts as the only one
BETWEEN = "|"  # word separator of CTC vocabularies, sometimes a special token
GOES_ON = "…"  # prefix of a piece that continues a word: "…ing"


MARKS = ("##", "▁", "Ġ")
LONGEST = max(map(len, MARKS))
SEEN = 4000  # first pieces, enough to detect the mark


def mark_of(pieces: Sequence[str]) -> str:
    """Return the word mark that most pieces begin with; empty if there is none.

    A vocabulary of one kind may contain the mark of another as a piece, such as "##" of headings.
    """
    counts = _counted(pieces[:SEEN])
    if not any(counts):
        counts = _counted(pieces)
    return MARKS[counts.index(max(counts))] if any(counts) else ""


def _counted(pieces: Sequence[str]) -> list[int]:
    """Return the number of pieces that begin with each mark."""
    begins = Counter(piece[:LONGEST] for piece in pieces)
    return [sum(n for begin, n in begins.items() if begin.startswith(mark)) for mark in MARKS]


@lru_cache(maxsize=64)
def _own_mark(of: ref[Tokenizer]) -> str:
    """Return the mark of a vocabulary, cached, since each slider frame needs names."""
    tokenizer = of()
    assert tokenizer is not None
    return mark_of(tokenizer.pieces)


class Names(Sequence[str]):
    """Display names of all tokens of a vocabulary, ``[id]``.

    A piece that continues a word is marked: "er" at the start and "er" at the end of a word would
    have the same name. Names are created on access: vocabularies are large. Models such as Qwen may
    generate ids that the tokenizer lacks; these are named ``#28``.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._pieces = tokenizer, tokenizer.pieces
        self._mark = _own_mark(ref(tokenizer))

    def __len__(self) -> int:
        return len(self._pieces)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(self[token] for token in range(len(self))[index])
        if index >= len(self):
            return piece(self._pieces, index)
        token = range(len(self))[index]
        read = self._tokenizer.tokens([token])
        inner = not read.special[0] and self._goes_on(self._pieces[token])
        return GOES_ON + read.labels[0] if inner else read.labels[0]

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def _goes_on(self, piece: str) -> bool:
        """Return True if a piece continues a word; punctuation and bytes do not."""
        marked = piece.startswith(self._mark)
        letters = piece.removeprefix(self._mark)[:1].isalnum()
        return letters and (marked if self._mark == "##" else not marked)


def another_order(tokens: Tokens, seed: int) -> tuple[int, ...]:
    """Return the ids of a sentence with its words in another order, determined by the seed.

    Pieces of a word stay together. Special tokens keep their positions, and so does final
    punctuation. The order changes whenever two different words can be exchanged.
    """
    ids = list(tokens.ids)
    places = [place for place, special in enumerate(tokens.special) if not special]
    if places and all(unicodedata.category(c).startswith("P") for c in tokens.labels[places[-1]]):
        places.pop()
    given: dict[int, tuple[int, ...]] = {}
    for place in places:
        given[tokens.words[place]] = (*given.get(tokens.words[place], ()), ids[place])
    mixed = _mixed(list(given.values()), seed % ORDERS)
    for place, token in zip(places, (token for word in mixed for token in word), strict=True):
        ids[place] = token
    return tuple(ids)


def _mixed(words: list[tuple[int, ...]], seed: int) -> list[tuple[int, ...]]:
    """Return shuffled words, different from the input and, if possible, from the previous seed."""
    dice, last = random.Random(0), words
    for _ in range(seed + 1):
        mixed = list(words)
        for _ in range(TRIES):
            dice.shuffle(mixed)
            if mixed not in (words, last):
                break
        last = mixed if mixed != words else last
    return last


def spelled(tokenizer: Tokenizer, ids: Sequence[int], blank: int) -> str:
    """Return the text of one letter per frame (CTC): repeats are merged, blanks and marks removed.

    Empty without a vocabulary, since the letters are unknown.
    """
    if isinstance(tokenizer, PlainIds):
        return ""
    once = [
        now for before, now in zip([None, *ids], ids, strict=False) if now not in (before, blank)
    ]
    tokens = tokenizer.tokens(once)
    known = zip(tokens.pieces, tokens.special, strict=True)
    letters = (piece for piece, mark in known if piece == BETWEEN or not mark)
    return "".join(letters).replace(BETWEEN, " ").strip()
