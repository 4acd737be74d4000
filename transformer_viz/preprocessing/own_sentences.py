"""Sentences of a vocabulary's words, for models that cannot read the usual examples."""

from __future__ import annotations

from collections.abc import Iterator

from .special_names import BARE, BRACKETED, role_of
from .tokenizers import Tokenizer
from .vocabularies import source_side
from .word_list import MARKS

MOST_LOOKED_AT = 2000  # first pieces: lists often begin with the usual words
MOST_WORDS, MOST_TRIES = 200, 300
SENTENCES = 4
LONGEST = 20  # characters of a word


def can_read(tokenizer: Tokenizer, text: str) -> bool:
    """Return True if a tokenizer encodes all of a text without the unknown token."""
    source = source_side(tokenizer)
    try:
        pieces = [source.pieces[i] for i in source.source_ids(text)]
        return not source.lost(text) and not any(map(_is_unknown, pieces))
    except (ValueError, IndexError):
        return False


def own_sentences(tokenizer: Tokenizer, length: int) -> tuple[str, ...]:
    """Return a few texts of ordinary words of the source vocabulary; empty if there are none.

    Args:
        tokenizer: Tokenizer of the model.
        length: Words per text.
    """
    source = source_side(tokenizer)
    words: list[str] = []
    for word in _ordinary(source):
        words.append(word)
        if len(words) == MOST_WORDS:
            break
    count = max(1, min(SENTENCES, len(words) // max(length, 1)))
    rows = (words[n::count][:length] for n in range(count if words else 0))
    return tuple(filter(lambda text: can_read(source, text), map(" ".join, rows)))


def _ordinary(source: Tokenizer) -> Iterator[str]:
    """Yield words that are neither special tokens nor inner pieces, and encode as one token."""
    pieces = list(source.pieces[:MOST_LOOKED_AT])
    marked = any(piece.startswith(("▁", "Ġ")) for piece in pieces)
    seen = set()
    letters = all(len(piece) == 1 for piece in pieces if not _is_special(piece))
    tries = MOST_TRIES
    for token, piece in enumerate(pieces):
        word = piece.removeprefix("▁").removeprefix("Ġ").removesuffix("</w>")
        whole = piece != word or not marked
        if _is_special(piece) or not whole or any(mark in word for mark in MARKS):
            continue
        if not word.isalpha() or len(word) > LONGEST or (len(word) < 2 and not letters):
            continue
        if word.casefold() in seen or not tries:
            continue
        tries -= 1  # a tokenizer in another process is slow
        if _reads(source, word, token):
            seen.add(word.casefold())
            yield word


def _is_special(piece: str) -> bool:
    return not piece or piece in BARE or BRACKETED.fullmatch(piece) is not None


def _is_unknown(piece: str) -> bool:
    known = role_of(piece)
    return piece in ("UNK", "OOV") or (known is not None and known[0] == "unk")


def _reads(source: Tokenizer, word: str, token: int) -> bool:
    """Return True if a word alone is encoded as this token, and the token is not special."""
    try:
        ids = source.source_ids(word)
        return token in ids and not source.tokens([token]).special[0]
    except ValueError:
        return False
