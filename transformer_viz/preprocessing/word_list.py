"""Vocabularies that are plain lists: words, pieces of words, or characters.

fairseq, OpenNMT and character models keep such lists. A text is split at its spaces, as these
programs read their files; a text that was cut into subwords before is typed as it was cut
(``the c@@ at``), unless the sentencepiece model that cut it is at hand. Lists that a user gives
split a text as `word_splitter` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ..core.trace_parts import Tokens
from .special_names import BARE, BRACKETED
from .tokenizers import arrange, piece, processor, visible, whole

#: Marks of a cut: ``@@`` after a piece that goes on, ``￭`` where two pieces join, ``▁`` before a
#: piece that begins a word.
MARKS = ("@@", "￭", "▁")
BOUNDS = (("", ""), ("▁", ""), ("", "</w>"))  # what lists write before or after a whole word


class WordText:
    """A list of words, one for a text's source and perhaps another for its target.

    ``pieces`` are the words by id; ``unknown`` is the id of any other word, None to refuse one;
    ``special`` are the ids that are no text. ``ends`` says that a source ends with ``eos_id``; a
    target starts with ``bos_id``. ``split`` cuts a text into words, which ``joint`` puts together
    again. ``target`` is the vocabulary of the other side, where it has its own.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        *,
        unknown: int | None,
        bos_id: int | None,
        eos_id: int | None,
        special: Sequence[int],
        ends: bool,
        split: Callable[[str], list[str]] = str.split,
        joint: str = " ",
        target: WordText | None = None,
    ):
        self.pieces: Sequence[str] = tuple(pieces)
        self.bos_id, self.eos_id = bos_id, eos_id
        self.target = self if target is None else target
        self._ids = {word: number for number, word in enumerate(self.pieces)}
        self._unknown, self._special, self._ends = unknown, frozenset(special), ends
        self._split, self._joint = split, joint
        counts = {mark: sum(mark in word for word in self.pieces) for mark in MARKS}
        self._mark = max(MARKS, key=lambda mark: counts[mark]) if any(counts.values()) else ""

    def source_ids(self, text: str) -> list[int]:
        end = [] if self.eos_id is None or not self._ends else [self.eos_id]
        return [*self._read(text), *end]

    def target_ids(self, text: str) -> list[int]:
        words = self.target._read(text)
        if self.bos_id is None:
            return words
        typed = words[:1] == [self.bos_id] and is_mark(piece(self.target.pieces, self.bos_id))
        return words if typed else [self.bos_id, *words]

    def prompt_ids(self, text: str) -> list[int]:
        return self.target_ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        words = [piece(self.pieces, i) for i in ids if i not in self._special]
        if self._mark == "▁":
            return "".join(words).replace("▁", " ").strip(" ")
        text = self._joint.join(words)
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
        return [self._id(word) for word in self._split(whole(text))]

    def _id(self, word: str) -> int:
        token = self._ids.get(word, self._unknown)
        if token is None:
            raise ValueError(
                f"The word {word[:40]!r} is not in the vocabulary of {len(self.pieces):,} words, "
                "which names no token for unknown words. Take another word, or type token ids."
            )
        return token

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


WORD = re.compile(r"\w+|[^\w\s]")


def word_splitter(ids: Mapping[str, int]) -> Callable[[str], list[str]]:
    """What splits a text into the words of a list.

    What stands between blanks is one word where the list has it; else it is split into words
    and punctuation marks (``\\w+|[^\\w\\s]``). A word that the list lacks is looked for in lower
    case. Where all words are single characters, a text is split into characters.
    """
    plain = [word for word in ids if len(word) == 1]
    others = [word for word in ids if len(word) > 1 and not is_mark(word)]
    if plain and not others:
        return lambda text: _characters(text, ids)

    def split(text: str) -> list[str]:
        found: list[str] = []
        for word in text.split():
            whole_word = _known(word, ids)
            parts = WORD.findall(word) if whole_word is None else [whole_word]
            found += [_known(part, ids) or part for part in parts]
        return found

    return split


def is_mark(word: str) -> bool:
    """Whether a word is written as special tokens are, in brackets or bare."""
    return word in BARE or BRACKETED.fullmatch(word) is not None


def _known(word: str, ids: Mapping[str, int]) -> str | None:
    """A word as the list writes it: as it is, with the mark of a word's start or end, in lower
    case."""
    forms = (f"{start}{form}{end}" for form in (word, word.lower()) for start, end in BOUNDS)
    return next((form for form in forms if form in ids), None)


def _characters(text: str, ids: Mapping[str, int]) -> list[str]:
    """The characters of a text, marks such as ``<eos>`` whole, and blanks that the list has."""
    found: list[str] = []
    for part in re.split(r"(\s)", text):
        whole_mark = len(part) > 1 and part in ids
        for character in [part] if whole_mark else part:
            if character in ids or not character.isspace():
                found.append(_known(character, ids) or character)
    return found


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
