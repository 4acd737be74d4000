"""Vocabularies that are plain lists: words, pieces of words, or characters.

fairseq, OpenNMT and character models keep such lists. A text is split at its spaces, as these
programs read their files; a text that was cut into subwords before is typed as it was cut
(``the c@@ at``), unless the sentencepiece model that cut it is at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.trace_parts import Tokens
from .tokenizers import arrange, piece, processor, visible, whole

#: Marks of a cut: ``@@`` after a piece that goes on, ``￭`` where two pieces join, ``▁`` before a
#: piece that begins a word.
MARKS = ("@@", "￭", "▁")


class WordText:
    """A list of words, one for a text's source and perhaps another for its target.

    ``pieces`` are the words by id; ``unknown`` is the id of any other word; ``special`` are the
    ids that are no text. ``ends`` says that a source ends with ``eos_id``; a target starts
    with ``bos_id``. ``split`` cuts a text into words. ``target`` is the vocabulary of the other
    side, where it has its own.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        unknown: int,
        bos_id: int,
        eos_id: int,
        special: Sequence[int],
        ends: bool,
        split: Callable[[str], list[str]] = str.split,
        target: WordText | None = None,
    ):
        self.pieces: Sequence[str] = tuple(pieces)
        self.bos_id, self.eos_id = bos_id, eos_id
        self.target = self if target is None else target
        self._ids = {word: number for number, word in enumerate(self.pieces)}
        self._unknown, self._special, self._ends = unknown, frozenset(special), ends
        self._split = split
        counts = {mark: sum(mark in word for word in self.pieces) for mark in MARKS}
        self._mark = max(MARKS, key=lambda mark: counts[mark]) if any(counts.values()) else ""

    def source_ids(self, text: str) -> list[int]:
        return [*self._read(text), *[self.eos_id] * self._ends]

    def target_ids(self, text: str) -> list[int]:
        return [self.bos_id, *self.target._read(text)]

    def prompt_ids(self, text: str) -> list[int]:
        return self.target_ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        words = [piece(self.pieces, i) for i in ids if i not in self._special]
        if self._mark == "▁":
            return "".join(words).replace("▁", " ").strip(" ")
        text = " ".join(words)
        if self._mark == "￭":
            return text.replace(" ￭", "").replace("￭ ", "").replace("￭", "")
        return (text + " ").replace("@@ ", "").removesuffix(" ") if self._mark else text

    def tokens(self, ids: Sequence[int]) -> Tokens:
        pieces = [piece(self.pieces, i) for i in ids]
        special = [i in self._special for i in ids]
        return arrange(ids, pieces, self._mark, special, self._starts(pieces))

    def lost(self, text: str) -> tuple[str, ...]:
        return ()  # a word that is not in the list shows as the unknown one

    def _read(self, text: str) -> list[int]:
        return [self._ids.get(word, self._unknown) for word in self._split(whole(text))]

    def _starts(self, pieces: Sequence[str]) -> list[bool]:
        """Which pieces begin a word, as the cuts are marked in this vocabulary."""
        if self._mark == "▁":
            return [word.startswith("▁") for word in pieces]
        if self._mark == "@@":
            return [not before.endswith("@@") for before in ("", *pieces[:-1])]
        return [
            not (before.endswith("￭") or word.startswith("￭"))
            for before, word in zip(("", *pieces), pieces, strict=False)
        ]


def sentencepiece_split(model: bytes) -> Callable[[str], list[str]]:
    """What cuts a text into pieces as a sentencepiece model does, from the bytes of its file.

    Raises:
        ValueError: no sentencepiece model.
    """
    cut = processor(model)
    return lambda text: [str(word) for word in cut.encode(text, out_type=str)]


class Characters:
    """One token a character; those that the vocabulary lacks leave no trace, and `lost` says so."""

    def __init__(self, characters: Sequence[str]):
        self.pieces: Sequence[str] = tuple(characters)
        self._ids = {character: number for number, character in enumerate(self.pieces)}

    def source_ids(self, text: str) -> list[int]:
        return [self._ids[c] for c in whole(text) if c in self._ids]

    def target_ids(self, text: str) -> list[int]:
        return self.source_ids(text)

    def prompt_ids(self, text: str) -> list[int]:
        return self.source_ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[i] for i in ids if 0 <= i < len(self.pieces))

    def tokens(self, ids: Sequence[int]) -> Tokens:
        pieces = [piece(self.pieces, i) for i in ids]
        breaks = [character.isspace() and character != " " for character in pieces]
        starts = [
            character.isspace() or after
            for character, after in zip(pieces, (True, *breaks), strict=False)
        ]
        return arrange(ids, pieces, "", [False] * len(pieces), starts)

    def lost(self, text: str) -> tuple[str, ...]:
        odd = [c for c in dict.fromkeys(whole(text)) if c not in self._ids]
        return tuple(visible(c) for c in odd)
