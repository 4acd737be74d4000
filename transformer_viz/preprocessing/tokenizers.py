"""Tokenizers with a common interface: text to ids, ids to labelled tokens and to text.

A label is the text of a token on an axis. Word marks of a vocabulary (``▁``, ``Ġ``, ``##``) are
removed from it and kept as word groups of :class:`Tokens`. Invisible characters get a symbol (a
space ``␣``, a control character ``U+0007``). A character of several byte tokens is shown at each of
them, ``🙂 1/4``. A repeated label gets a number, ``the (2)``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import sentencepiece

from ..core.errors import writable
from ..core.trace_parts import Tokens
from .elsewhere import RemotePieces, maker

Pieces = sentencepiece.SentencePieceProcessor | RemotePieces
SHAPES = {"\n": "↵", "\t": "⇥"}
MAX_UTF8_BYTES = 4  # bytes of one character in UTF-8


class Tokenizer(Protocol):
    """Interface that converts a model's text to ids and back."""

    @property
    def pieces(self) -> Sequence[str]:
        """Vocabulary as stored: ``pieces[id]``."""
        ...

    def source_ids(self, text: str) -> list[int]:
        """Return the input of an encoder: the pieces and the end token."""
        ...

    def target_ids(self, text: str) -> list[int]:
        """Return the input of a decoder: the start token and the pieces, without end token."""
        ...

    def prompt_ids(self, text: str) -> list[int]:
        """Return the input of a decoder-only model: its start token, if any, and the pieces."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special tokens are left out, unknown ones stay visible."""
        ...

    def tokens(self, ids: Sequence[int]) -> Tokens:
        """Return pieces, labels, word groups and special flags of ids."""
        ...

    def lost(self, text: str) -> tuple[str, ...]:
        """Return labels of the characters that this tokenizer would drop silently."""
        ...


class PairTokenizer(Tokenizer, Protocol):
    """Tokenizer of a model for text pairs."""

    def pair_ids(self, first: str, second: str) -> tuple[list[int], list[int] | None]:
        """Return both texts as one source and its token types, None if the model uses none."""
        ...


def target_side(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of the decoder's tokens; most models share one for both sides."""
    target: Tokenizer = getattr(tokenizer, "target", tokenizer)
    return target


class SentencePieceText:
    """Tokenizer of a sentencepiece model: its file, the bytes of it, or its processor.

    ``bos_id`` and ``eos_id`` are the start and end token if the model uses others than the file
    names. The unknown token is not special: it stands for typed text.

    Raises:
        ValueError: The file is no sentencepiece model, or has no start or end token.
    """

    def __init__(
        self,
        model: bytes | str | Path | Pieces,
        *,
        bos_id: int | None = None,
        eos_id: int | None = None,
    ):
        if isinstance(model, str | Path):
            model = Path(model).read_bytes()
        self._processor: Pieces = processor(model) if isinstance(model, bytes) else model
        self.bos_id = self._processor.bos_id() if bos_id is None else bos_id
        self.eos_id = self._processor.eos_id() if eos_id is None else eos_id
        size = self._processor.get_piece_size()
        self.pieces: Sequence[str] = tuple(self._processor.id_to_piece(list(range(size))))
        self._special = {i for i in range(size) if self._processor.is_control(i)}
        self._special |= {self.bos_id, self.eos_id}

    def source_ids(self, text: str) -> list[int]:
        return [*self._encode(text), self._named("end", "eos_id", self.eos_id)]

    def target_ids(self, text: str) -> list[int]:
        return [self._named("start", "bos_id", self.bos_id), *self._encode(text)]

    def prompt_ids(self, text: str) -> list[int]:
        return self.target_ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        known = [i for i in ids if 0 <= i < len(self.pieces) and i not in self._special]
        return self._processor.decode(known)

    def tokens(self, ids: Sequence[int]) -> Tokens:
        special = [i in self._special for i in ids]
        return arrange(ids, [piece(self.pieces, i) for i in ids], "▁", special)

    def lost(self, text: str) -> tuple[str, ...]:
        return swallowed(text, self._encode)

    def _encode(self, text: str) -> list[int]:
        return self._processor.encode(whole(text))

    def _named(self, role: str, word: str, token: int) -> int:
        if token < 0:
            raise ValueError(
                f"This vocabulary names no {role} token; say which id it is with {word}=."
            )
        return token


class PlainIds:
    """Tokenizer without vocabulary: a text is a list of token ids, ``2 45 3``, used as typed.

    Nothing is added to them. An empty text gives the end token (or, as a target, the start token),
    if the model has one. ``end_ids`` also end a text. ``size`` and ``target_size`` (by default the
    same) limit the ids of the two sides; None sets no limit. ``advice`` begins the error message.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        target_size: int | None = None,
        pad_id: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        end_ids: Sequence[int] = (),
        advice: str = "This model has no vocabulary",
    ):
        self.size, self._advice = size, advice
        self.target_size = size if target_size is None else target_size
        self.bos_id, self.eos_id = bos_id, eos_id
        self._special = {pad_id, bos_id, eos_id, *end_ids}
        self.pieces: Sequence[str] = tuple(map(str, range(max(size or 0, self.target_size or 0))))

    def source_ids(self, text: str) -> list[int]:
        return self._read(text, self.size, self.eos_id)

    def target_ids(self, text: str) -> list[int]:
        return self._read(text, self.target_size, self.bos_id)

    def prompt_ids(self, text: str) -> list[int]:
        return self.target_ids(text)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(str(i) for i in ids if i not in self._special)

    def tokens(self, ids: Sequence[int]) -> Tokens:
        return arrange(ids, [str(i) for i in ids], "", [i in self._special for i in ids])

    def lost(self, text: str) -> tuple[str, ...]:
        return ()

    def _read(self, text: str, size: int | None, alone: int | None) -> list[int]:
        words = text.replace(",", " ").split()
        if not words and alone is not None:
            return [alone]
        advice = f"{self._advice}: type token ids such as 2 45 3"
        advice += "." if size is None else f", each from 0 to {size - 1}."
        for word in words:
            if not (word.isascii() and word.isdecimal()):
                raise ValueError(f"{word!r} is no token id. {advice}")
            if size is not None and int(word) >= size:
                raise ValueError(f"The id {word} is too large. {advice}")
        if not words:
            raise ValueError(f"The text is empty. {advice}")
        return [int(word) for word in words]


def processor(content: bytes) -> Pieces:
    """Return the sentencepiece model of a file's bytes; from the `Maker`, if one is set.

    Raises:
        ValueError: The bytes are no sentencepiece model. The message gives the reason.
    """
    made = maker()
    if made is not None:
        return made.pieces(content)
    try:
        if content:  # the library treats empty bytes as "nothing to load yet"
            found = sentencepiece.SentencePieceProcessor(model_proto=content)
            found.id_to_piece(list(range(found.get_piece_size())))  # raises if a piece is not text
            return found
        reason = "it is empty"
    except RuntimeError:
        reason = "it is cut off or of another kind"
    except UnicodeDecodeError:
        reason = "a piece of it is no UTF-8"
    raise ValueError(
        f"The vocabulary is not a sentencepiece model ({reason}). Give the file that was saved "
        "when the vocabulary was trained, often named *.model or *.spm."
    )


def whole(text: str) -> str:
    """Return the text with lone surrogates replaced, which no tokenizer can encode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def piece(pieces: Sequence[str], token: int) -> str:
    """Return a piece by its id; an unknown id gives its number."""
    return pieces[token] if 0 <= token < len(pieces) else f"#{token}"


def swallowed(text: str, encode: Callable[[str], list[int]]) -> tuple[str, ...]:
    """Return labels of characters that encode to nothing between two letters, except spaces."""
    plain = encode("ab")
    odd = [c for c in dict.fromkeys(whole(text)) if not (c.isspace() or "!" <= c <= "~")]
    return tuple(visible(c) for c in odd if encode(f"a{c}b") == plain)


def arrange(
    ids: Sequence[int],
    pieces: Sequence[str],
    mark: str,
    special: Sequence[bool],
    starts: Sequence[bool] | None = None,
) -> Tokens:
    """Return tokens from ids and pieces of a vocabulary with the word mark ``mark``.

    ``starts`` marks tokens that begin a word, if the mark alone is not sufficient.
    """
    pieces = tuple(map(writable, pieces))
    if starts is None:
        starts = [_starts(pieces, i, mark) for i in range(len(pieces))]
    parts = [
        piece.encode() if alone else _part(piece, mark)
        for piece, alone in zip(pieces, special, strict=True)
    ]
    texts, rests = _characters(parts)
    return Tokens(
        ids=tuple(int(i) for i in ids),
        pieces=pieces,
        labels=numbered(text + rest for text, rest in zip(texts, rests, strict=True)),
        words=_words(starts, texts, rests, special),
        special=tuple(special),
    )


def _part(piece: str, mark: str) -> bytes:
    """Return the text of a piece as bytes."""
    if mark == "Ġ" and all(c in _BYTES for c in piece):
        return bytes(_BYTES[c] for c in piece)
    if mark == "▁":
        byte = len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
        return bytes.fromhex(piece[3:5]) if byte else piece.replace("▁", " ").encode()
    return piece.removeprefix(mark).removesuffix(mark).encode()


def _starts(pieces: Sequence[str], index: int, mark: str) -> bool:
    """Return True if a token begins a new word."""
    if mark == "##":
        return not pieces[index].startswith(mark)
    if mark == "</w>":
        return index == 0 or pieces[index - 1].endswith(mark)
    return index == 0 or pieces[index].startswith((mark, "Ċ", "ĉ") if mark == "Ġ" else mark)


def _byte_alphabet() -> dict[str, int]:
    """Return the byte of each printable character that byte-level vocabularies use for bytes.

    Printable Latin-1 bytes stand for themselves, the others for the characters from 256 (Radford et
    al. 2019, the vocabulary of GPT-2).
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(b): b for b in own} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTES = _byte_alphabet()
BYTE_LETTERS = {byte: letter for letter, byte in _BYTES.items()}


def _characters(parts: Sequence[bytes]) -> tuple[list[str], list[str]]:
    """Return each token's visible text, and ``" 1/4"`` if several tokens form one character."""
    texts: list[str] = []
    rests: list[str] = []
    while len(texts) < len(parts):
        at = len(texts)
        for count in range(1, min(MAX_UTF8_BYTES, len(parts) - at) + 1):
            try:
                text = visible(b"".join(parts[at : at + count]).decode())
                break
            except UnicodeDecodeError:
                continue
        else:  # bytes that form no character stay bytes
            count, text = 1, "".join(f"<0x{byte:02X}>" for byte in parts[at])
        texts += [text] * count
        rests += [f" {i + 1}/{count}" if count > 1 else "" for i in range(count)]
    return texts, rests


def visible(text: str) -> str:
    """Return a text without outer spaces, with symbols for invisible characters."""
    text = text.strip(" ") or ("␣" if text else "")
    if text and unicodedata.combining(text[0]):
        text = "◌" + text  # an accent needs a base character
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else SHAPES.get(c, f"U+{ord(c):04X}") for c in text)


def numbered(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels made unique: the second ``the`` becomes ``the (2)``."""
    seen: dict[str, int] = {}
    out = []
    for label in labels:
        unique, count = label, seen.get(label, 0)
        while unique in seen:
            count += 1
            unique = f"{label} ({count})"
        seen[label] = max(count, 1)
        seen.setdefault(unique, 1)
        out.append(unique)
    return tuple(out)


def _words(
    starts: Sequence[bool], texts: Sequence[str], rests: Sequence[str], special: Sequence[bool]
) -> tuple[int, ...]:
    """Return the word number of each token; punctuation around a word counts separately."""
    opens = [start or special[i] or (i > 0 and special[i - 1]) for i, start in enumerate(starts)]
    # a piece that is only a word mark belongs to the next piece
    bare = [False, *(begins and text == "␣" for begins, text in zip(opens, texts, strict=True))]
    before, behind = _outer_marks(texts, opens, bare)
    words, word = [], -1
    for i, rest in enumerate(rests):
        # bytes of one character stay together, and a bare mark stays with its word
        joined = bare[i] or (rest and not rest.startswith(" 1/"))
        # "(word)": the word begins after its opening marks, each closing mark is a new one
        apart = i > 0 and (behind[i] or before[i - 1]) and not joined
        if i == 0 or opens[i] or apart:
            word += 1
        words.append(word)
    return tuple(words)


def _outer_marks(
    texts: Sequence[str], opens: Sequence[bool], bare: Sequence[bool]
) -> tuple[list[bool], list[bool]]:
    """Return punctuation flags at the beginning (first list) and the end (second) of words.

    A flagged token is separated from that border by punctuation only. An apostrophe inside a word
    has neither flag.
    """
    mark = [all(unicodedata.category(c).startswith("P") for c in text) for text in texts]
    before, behind = list(mark), list(mark)
    for i in range(1, len(mark)):
        before[i] = mark[i] and (opens[i] or bare[i] or before[i - 1])
    for i in range(len(mark) - 2, -1, -1):
        behind[i] = mark[i] and (opens[i + 1] or behind[i + 1])
    return before, behind
