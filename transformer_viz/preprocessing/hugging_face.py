"""Adapter of tokenizers of the transformers library to our own interface; the caller opens them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from ..core.errors import is_fault, is_panic
from ..core.trace_parts import Tokens
from .elsewhere import RemoteTokenizer
from .tokenizers import arrange, piece, swallowed, whole

PROBE = "a"  # text to find special tokens with
NO_LANGUAGES = ""  # language of a tokenizer without languages


@contextmanager
def without_panics() -> Iterator[None]:
    """Convert errors of the library to ValueError.

    These are panics (not an Exception), plain ``Exception``, and Python errors for values of
    unexpected types in a file.

    Raises:
        ValueError: First line of the error, and what to do.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, ValueError | OSError) or not is_fault(error):
            raise
        is_native = is_panic(error) or type(error) is Exception
        reason = str(error).partition("\n")[0][:100].rstrip(". ") if is_native else ""
        raise ValueError(
            f"The tokenizer of this model broke off ({reason or 'a word of its files is odd'}). "
            "Take another text, or type token ids as numbers."
        ) from None


class HuggingFaceText:
    """Adapter of a tokenizer of the transformers library.

    Sources get the special tokens that the tokenizer adds. The tokenizer switches modes during a
    call (text or target text, padding), so calls are serialized with a lock.

    Args:
        tokenizer: Tokenizer of the library, opened by the caller.
        start_id: The decoder's start token (``decoder_start_token_id`` of the model's config).
        side: ``source`` or ``target`` for a tokenizer with separate vocabularies
            (:func:`separate_words`).
        framed: True to add the tokens that the tokenizer puts before a target, as the library does
            in training: ``[start, language, pieces]`` of NLLB. The end token is left out.
        forced_id: Token that replaces them, because the model must generate it first.
        language_starts: True if the language token that ends a target in training is the start
            token.
        types_count: True if the model has no table of token types: for it, zeros differ from no
            types. It gets types only if the tokenizer declares them as an input or has more than a
            number for each text.
        end_ids: Tokens that end a text; those marked as special by the tokenizer are special. A
            tokenizer that ends a target with none of them was not made for this model, so nothing
            is put before a target.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        start_id: int | None = None,
        side: str = "",
        framed: bool = False,
        forced_id: int | None = None,
        language_starts: bool = False,
        types_count: bool = False,
        end_ids: Collection[int] = (),
    ):
        self._tokenizer, self._side = tokenizer, side
        self._start, self._framed, self._forced = start_id, framed, forced_id
        self._language_starts, self._types_count = language_starts, types_count
        self._types_meant = not types_count or getattr(tokenizer, "declares_types", True)
        self._ends = set(end_ids)
        self._frames: dict[Any, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._lock = threading.Lock()
        self._special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        self._special |= added_special_ids(tokenizer).intersection(end_ids)
        self._own_words = separate_words(tokenizer) if side else None
        if self._own_words is not None and side == "target":  # the special ids belong to the source
            source, target = self._own_words
            marks = {source[i] for i in self._special if i < len(source)}
            self._special = {i for i, word in enumerate(target) if word in marks}
        if start_id is not None:
            self._special.add(start_id)

    @property
    def languages(self) -> bool:
        """True if the tokenizer marks a target with its language."""
        return self.language != NO_LANGUAGES

    @property
    def language(self) -> str | None:
        """Target language of the tokenizer; None if not set, empty if it has no languages."""
        named: str | None = getattr(self._tokenizer, "tgt_lang", NO_LANGUAGES)
        return named

    @cached_property
    def pieces(self) -> Sequence[str]:
        if self._own_words is not None:
            return self._own_words[self._side == "target"]
        with without_panics():
            return pieces_of(self._tokenizer)

    @cached_property
    def _mark(self) -> str:
        """Mark of word boundaries in this vocabulary: the one that most pieces have."""
        counts = {mark: sum(p.startswith(mark) for p in self.pieces) for mark in ("▁", "Ġ", "##")}
        counts["</w>"] = sum(p.endswith("</w>") for p in self.pieces)
        mark = max(counts, key=lambda name: counts[name])
        return mark if counts[mark] else ""

    def source_ids(self, text: str) -> list[int]:
        return self.typed_ids(text)[0]

    def typed_ids(self, *texts: str) -> tuple[list[int], list[int] | None]:
        """Return the ids of one text or of two, and the token types.

        The types are None if the tokenizer creates none, or if all are 0 and the model treats that
        as none.
        """
        with self._lock, without_panics():
            made = self._tokenizer(*map(whole, texts))
        types = list(made.get("token_type_ids") or ())
        meant = self._types_meant or max(types, default=0) > 1
        counted = meant and (any(types) or self._types_count)
        return list(made["input_ids"]), types if types and counted else None

    def target_ids(self, text: str) -> list[int]:
        return [*self.opening_ids(), *self.piece_ids(text)]

    def piece_ids(self, text: str) -> list[int]:
        """Return the pieces of a target, without special tokens."""
        with self._lock, without_panics():
            return self._encode_target(whole(text), special=False)

    def opening_ids(self) -> list[int]:
        """Return the decoder tokens before the pieces of a target: start token and language."""
        start = [] if self._start is None else [self._start]
        if not self._framed:
            return start
        before, after = self.frame()
        if self._language_starts and not before and len(after) > 1:
            start = [after[-1]]
        ends = self._ends | {getattr(self._tokenizer, "eos_token_id", None)} - {None}
        if self._forced is not None:
            before = (self._forced,)
        elif after and ends and not ends.intersection(after):
            before = ()
        elif list(before[:1]) == start and (not after or len(before) > 1):
            before = before[1:]  # the tokenizer adds the start token, as Whisper's does
        return [*start, *before]

    def frame(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the special tokens that the tokenizer puts before and after a target."""
        language = self.language
        if language not in self._frames:
            with self._lock, without_panics():
                every = self._encode_target(PROBE, special=True)
                bare = self._encode_target(PROBE, special=False)
            more = len(every) - len(bare)
            places = [n for n in range(more + 1) if every[n : n + len(bare)] == bare]
            found = (
                (tuple(every[: places[0]]), tuple(every[places[0] + len(bare) :]))
                if (bare and places)
                else ((), ())
            )
            self._frames[language] = found
            self._special |= {*found[0], *found[1]} - {self._tokenizer.unk_token_id}
            if self._forced is not None and found[0]:
                self._special.add(self._forced)  # it replaces the language token
        return self._frames[language]

    def _encode_target(self, text: str, *, special: bool) -> list[int]:
        """Return the ids of a target.

        A tokenizer that needs a language but has none encodes it as a source.
        """
        tokenizer, language = self._tokenizer, self.language
        try:
            made = encode_target(tokenizer, text, special=special)
        except (KeyError, ValueError):
            if language is not None:
                raise
            made = list(tokenizer(text, add_special_tokens=False)["input_ids"])
        if language is None and tokenizer.tgt_lang is not None:
            tokenizer.tgt_lang = None  # some use the source's from then on
        return made

    def pair_ids(self, first: str, second: str) -> tuple[list[int], list[int] | None]:
        return self.typed_ids(first, second)

    def prompt_ids(self, text: str) -> list[int]:
        ids = self.source_ids(text)
        end = self._tokenizer.eos_token_id
        return ids[:-1] if len(ids) > 1 and ids[-1] == end else ids

    def decode(self, ids: Sequence[int]) -> str:
        known = [int(i) for i in ids if 0 <= i < len(self.pieces) and i not in self._special]
        if self._own_words is not None and self._side == "source":  # decode() uses the target
            joined = "".join(self.pieces[i] for i in known)
            return joined.replace("</w>", " ").replace("▁", " ").strip()
        with self._lock, without_panics():
            return str(self._tokenizer.decode(known))

    def tokens(self, ids: Sequence[int]) -> Tokens:
        special = [i in self._special for i in ids]
        return arrange(ids, [piece(self.pieces, i) for i in ids], self._mark, special)

    def lost(self, text: str) -> tuple[str, ...]:
        return swallowed(text, self.source_ids)


def pieces_of(tokenizer: Any) -> tuple[str, ...]:
    """Return all pieces of a tokenizer; the length of M2M100's excludes its languages."""
    languages = getattr(tokenizer, "lang_token_to_id", None) or {}
    size = max(len(tokenizer), *(int(token) + 1 for token in languages.values()), 0)
    return tuple(str(piece) for piece in tokenizer.convert_ids_to_tokens(list(range(size))))


def needed_size(tokenizer: Any) -> int:
    """Return the number of embedding rows for a tokenizer, without added tokens at its end.

    Unused padding tokens have no row in many models.
    """
    known = getattr(tokenizer, "needed_size", None)
    if known is not None:
        return int(known)
    size = len(tokenizer)
    added = {int(token) for token in getattr(tokenizer, "added_tokens_decoder", None) or {}}
    while size - 1 in added:
        size -= 1
    return size or len(tokenizer)


def added_special_ids(tokenizer: Any) -> set[int]:
    """Return the ids that a tokenizer marks as special, with or without a role."""
    known = getattr(tokenizer, "added_special_ids", None)
    if known is not None:
        return set(known)
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    return {int(token) for token, piece in added.items() if getattr(piece, "special", False)}


def encode_target(tokenizer: Any, text: str, *, special: bool = False) -> list[int]:
    """Return the ids of a target text, with special tokens around it if ``special``.

    FSMT's tokenizer splits a target correctly, but looks its pieces up in the source vocabulary.
    """
    if getattr(tokenizer, "tgt_vocab_file", None) is None:
        made = tokenizer(text_target=text, add_special_tokens=special)
        return list(made["input_ids"])
    words = {word: i for i, word in tokenizer.decoder.items()}
    unknown = words.get(tokenizer.unk_token, 0)
    return [words.get(piece, unknown) for piece in tokenizer.tokenize(text)]


def separate_words(tokenizer: Any) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the source and target words of a tokenizer with separate vocabularies.

    Examples are Marian's with ``separate_vocabs`` and FSMT's; None for all others.
    """
    if isinstance(tokenizer, RemoteTokenizer):
        words = tokenizer.target_pieces
        return None if not words else (tokenizer.pieces, words)
    source: Any = getattr(tokenizer, "encoder", None)
    target: Any = getattr(tokenizer, "target_encoder", None)
    if getattr(tokenizer, "tgt_vocab_file", None) is not None:  # decoder of FSMT's target
        target = {word: i for i, word in getattr(tokenizer, "decoder", {}).items()}
    elif not getattr(tokenizer, "separate_vocabs", False):
        return None
    if not isinstance(source, dict) or not isinstance(target, dict):
        return None
    return _by_id(source), _by_id(target)


def _by_id(words: dict[str, int]) -> tuple[str, ...]:
    named = {int(i): str(word) for word, i in words.items()}
    return tuple(named.get(i, f"#{i}") for i in range(max(named, default=-1) + 1))
