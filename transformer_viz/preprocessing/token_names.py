"""What the tokens of a vocabulary are called, and a sentence's tokens in another order."""

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

ORDERS = 100  # seeds that lead to an order of their own
TRIES = 50  # shuffles until an order counts as the only one
BETWEEN = "|"  # what CTC vocabularies write between words; some call it a mark
GOES_ON = "…"  # stands before a piece that goes on with a word: "…ing"


MARKS = ("##", "▁", "Ġ")
LONGEST = max(map(len, MARKS))
SEEN = 4000  # pieces, in which every vocabulary shows how it marks words


def mark_of(pieces: Sequence[str]) -> str:
    """What most pieces begin with that say whether they begin a word; empty where none does.

    A vocabulary of one kind may hold the mark of another as a piece, as "##" of headings.
    """
    counts = _counted(pieces[:SEEN])
    if not any(counts):
        counts = _counted(pieces)
    return MARKS[counts.index(max(counts))] if any(counts) else ""


def _counted(pieces: Sequence[str]) -> list[int]:
    """How many pieces begin with each mark."""
    begins = Counter(piece[:LONGEST] for piece in pieces)
    return [sum(n for begin, n in begins.items() if begin.startswith(mark)) for mark in MARKS]


@lru_cache(maxsize=64)
def _own_mark(of: ref[Tokenizer]) -> str:
    """Counted once for a vocabulary, as each frame of a slider asks for names."""
    tokenizer = of()
    assert tokenizer is not None
    return mark_of(tokenizer.pieces)


class Names(Sequence[str]):
    """The name of every token of a vocabulary, ``[id]``, as a reader sees it.

    A piece that goes on with a word says so, or "er" that begins one and "er" that ends one would
    bear the same name. Each is made when it is asked for: vocabularies are large. A model may write
    ids that its tokenizer lacks, as Qwen does; such a one is called ``#28``.
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
        """Whether a piece goes on with a word; punctuation and bytes stand for themselves."""
        marked = piece.startswith(self._mark)
        letters = piece.removeprefix(self._mark)[:1].isalnum()
        return letters and (marked if self._mark == "##" else not marked)


def another_order(tokens: Tokens, seed: int) -> tuple[int, ...]:
    """The ids of a sentence with its words in another order, the same one for the same seed.

    Pieces of a word stay together. Special tokens stay where they are, and so does punctuation at
    the end. The order is another one wherever two different words can change places.
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
    """The words shuffled: not as given, and where there is a choice not as for the seed before."""
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
    """The text of one letter a frame (CTC): repeated letters are one, then blanks and marks go.

    Empty where there is no vocabulary, so that nobody knows the letters.
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
