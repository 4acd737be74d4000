"""Vocabularies that are plain lists: words, pieces of words, or characters.

fairseq, OpenNMT and character models use such lists. A text is split at its spaces, as these
programs read their files. A text in subwords is typed in subwords (``the c@@ at``), unless the
sentencepiece model that splits it is available. Lists passed by the user split a text with
`word_splitter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ..core.trace_parts import Tokens
from .special_names import BARE, BRACKETED
from .tokenizers import arrange, piece, processor, visible, whole

#: Subword marks: ``@@`` after a piece that is continued, ``￭`` where two pieces join, ``▁`` before
#: a piece that begins a word.
MARKS = ("@@", "￭", "▁")
BOUNDS = (("", ""), ("▁", ""), ("", "</w>"))  # marks before or after a whole word in lists


class WordText:
    """Tokenizer with a list of words, and optionally another list for the target.

    Args:
        pieces: Words by id.
        unknown: Id of unknown words; None raises an error for them.
        bos_id: Start token of a target.
        eos_id: End token.
        special: Ids that are no text.
        ends: True if a source ends with ``eos_id``.
        split: Function that splits a text into words.
        joint: Text that joins words again.
        target: Vocabulary of the target, if it has its own.
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
        return ()  # unknown words are shown as the unknown token

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
        """Return True for pieces that begin a word, by the marks of this vocabulary."""
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
    """Return a function that splits a text into the words of a list.

    A text between blanks is one word if the list has it; else it is split into words and
    punctuation marks (``\\w+|[^\\w\\s]``). A word that the list lacks is looked up in lower case.
    If all words are single characters, a text is split into characters.
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
    """Return True if a word is written like a special token, in brackets or bare."""
    return word in BARE or BRACKETED.fullmatch(word) is not None


def _known(word: str, ids: Mapping[str, int]) -> str | None:
    """Return a word as listed: unchanged, with a word mark, or in lower case; else None."""
    forms = (f"{start}{form}{end}" for form in (word, word.lower()) for start, end in BOUNDS)
    return next((form for form in forms if form in ids), None)


def _characters(text: str, ids: Mapping[str, int]) -> list[str]:
    """Return the characters of a text, whole marks such as ``<eos>``, and blanks in the list."""
    found: list[str] = []
    for part in re.split(r"(\s)", text):
        whole_mark = len(part) > 1 and part in ids
        for character in [part] if whole_mark else part:
            if character in ids or not character.isspace():
                found.append(_known(character, ids) or character)
    return found


def sentencepiece_split(model: bytes) -> Callable[[str], list[str]]:
    """Return a function that splits a text into the pieces of a sentencepiece model's bytes.

    Raises:
        ValueError: The bytes are no sentencepiece model.
    """
    cut = processor(model)
    return lambda text: [str(word) for word in cut.encode(text, out_type=str)]


class Characters:
    """Tokenizer with one token per character; `lost` lists characters that are dropped."""

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
