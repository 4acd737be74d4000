"""Tokenizers passed by the user: objects of any package, and word lists in memory.

An object is recognised by its methods, never by its package: ``encode`` and ``decode``, the methods
of tokenizers, transformers and sentencepiece, or a table of words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from ..core.errors import is_fault, is_panic
from ..core.trace_parts import Tokens
from .elsewhere import SPECIAL, RemotePieces, RemoteTokenizer
from .fast_tokenizer import FastTokenizer
from .hugging_face import HuggingFaceText, needed_size, separate_words
from .special_names import ROLES, is_id, model_ids, settle_ids, special_tokens
from .tokenizers import (
    BYTE_LETTERS,
    PlainIds,
    SentencePieceText,
    Tokenizer,
    arrange,
    piece,
    swallowed,
    whole,
)
from .vocabularies import Ids, Vocabulary
from .word_tables import WordTable, table_of, word_table, words_vocabulary

EXPECTED = (
    "expected an object with encode and decode, a tokenizer of the packages tokenizers, "
    "transformers or sentencepiece, a list or dictionary of words, or the path of a vocabulary file"
)
SAMPLE = "a"  # text to test an object with
#: Attribute or method names for the id of a special token, by role.
ATTRIBUTES = ("{}_id", "{}_token_id", "{}_idx", "{}_index", "{}")
OTHER_NAMES = {"bos": ("sos", "cls", "start"), "eos": ("sep", "end", "eot")}
OWN = ("source_ids", "target_ids", "prompt_ids", "decode", "tokens", "lost")


def vocabulary_of(given: Any, named: str = "tokenizer") -> Vocabulary:
    """Return the vocabulary of an object in memory.

    Args:
        given: The user's object; paths are read earlier.
        named: Keyword of the argument, for errors.

    Raises:
        ValueError: The object is unknown or fails. The message names the given and the expected
            kind.
    """
    if isinstance(given, Vocabulary):
        return given
    kind = type(given).__name__
    if isinstance(given, type):
        raise ValueError(f"{named}= is the class {given.__name__}; give an object of it.")
    try:
        if isinstance(given, WordTable):
            return words_vocabulary(given)
        if all(callable(getattr(given, name, None)) for name in OWN):
            return _own(given)
        table = word_table(given)
        if table is not None:
            return words_vocabulary(table)
        found = _by_methods(given)
    except ValueError as error:
        raise ValueError(f"{named}= cannot be used. {error}") from error
    if found is None:
        raise ValueError(f"{named}= is {_shown(given, kind)}; {EXPECTED}.")
    return found


def _own(given: Any) -> Vocabulary:
    """Return the vocabulary of an object with our own tokenizer interface, used directly."""
    single = isinstance(given, SentencePieceText | HuggingFaceText)
    held: dict[str, Any] = {word: getattr(given, word, None) for word in ("bos_id", "eos_id")}
    known = {} if isinstance(given, PlainIds) else {w: i for w, i in held.items() if is_id(i)}
    return Vocabulary(lambda ids: given, known, None, given, serves_both=not single)


def _by_methods(given: Any) -> Vocabulary | None:
    """Return the vocabulary of an object, recognised by its methods, or None."""

    def has(*names: str) -> bool:
        return all(callable(getattr(given, name, None)) for name in names)

    if isinstance(given, RemoteTokenizer) or has("convert_ids_to_tokens", "__call__", "__len__"):
        return library_vocabulary(given)
    if isinstance(given, RemotePieces) or has("id_to_piece", "get_piece_size", "encode", "decode"):
        return pieces_vocabulary(given)
    if has("id_to_token", "token_to_id", "get_vocab_size", "encode", "decode"):
        return library_vocabulary(FastTokenizer(given))
    if has("encode", "decode"):
        return _encoding(given)
    table = table_of(given)
    if table is None:
        return None
    default = given.get_default_index() if has("get_default_index") else None
    return words_vocabulary(table, default if is_id(default) else None)


def library_vocabulary(tokenizer: Any) -> Vocabulary:
    """Return the vocabulary of a transformers tokenizer, or of an object with its methods."""
    roles: dict[str, Any] = {r: getattr(tokenizer, f"{r}_token_id", None) for r in SPECIAL}
    roles["bos"] = roles["cls"] if roles["bos"] is None else roles["bos"]
    roles["eos"] = roles["sep"] if roles["eos"] is None else roles["eos"]

    def make(side: str) -> Callable[[Ids], Tokenizer]:
        return lambda ids: HuggingFaceText(
            tokenizer,
            start_id=ids.get("start_id", ids.get("bos_id")),
            side=side,
            **ids.get("text_options", {}),
        )

    words = separate_words(tokenizer)
    if words is None:
        return Vocabulary(make(""), model_ids(roles), needed_size(tokenizer), tokenizer)
    source, target = words
    there = {word: i for i, word in enumerate(target)}
    names = {role: source[i] for role, i in roles.items() if is_id(i) and i < len(source)}
    named = model_ids({role: there.get(word) for role, word in names.items()})
    aim = Vocabulary(make("target"), named, len(target), tokenizer)
    return Vocabulary(make("source"), model_ids(roles), len(source), tokenizer, aim)


def pieces_vocabulary(processor: Any) -> Vocabulary:
    """Return the vocabulary of a sentencepiece model."""
    size = int(processor.get_piece_size())
    pieces = [str(processor.id_to_piece(i)) for i in range(size)] if size else []
    if isinstance(processor, RemotePieces):
        pieces = list(processor.id_to_piece(range(size)))
    known = {role: getattr(processor, f"{role}_id")() for role in ("pad", "bos", "eos")}
    roles = {**special_tokens(pieces), **{role: i for role, i in known.items() if is_id(i)}}

    def make(ids: Ids) -> Tokenizer:
        own = settle_ids(roles, ids)
        return SentencePieceText(processor, bos_id=own.get("bos_id"), eos_id=own.get("eos_id"))

    return Vocabulary(make, model_ids(roles), size, processor, needs_end=True)


def _shown(given: Any, kind: str) -> str:
    text = repr(given) if isinstance(given, int | float | bool | bytes) else ""
    return f"{kind} {text[:40]}".strip() if text else f"an object of the class {kind}"


class WrongKindError(ValueError):
    """An object returned something other than ids or text."""


# ---- objects with encode and decode ------------------------------------------------------------


def _encoding(given: Any) -> Vocabulary:
    """Return the vocabulary of an object with encode and decode.

    Raises:
        ValueError: encode returns no ids, or decode returns no text.
    """
    table = table_of(given)
    size = _size(given) if table is None else len(table.words)
    roles = _roles(given, table)
    name = type(given).__name__
    ids = _trial(given, name)
    if ids and size is not None and max(ids) >= size:
        size = None  # its size does not count ids

    def make(settled: Ids) -> Tokenizer:
        own = settle_ids(roles, settled)
        return GivenText(given, own, table, size)

    return Vocabulary(make, model_ids(roles), size, given)


def _trial(given: Any, name: str) -> list[int]:
    """Return the ids of a small text after decoding them as a test; words may be unknown.

    Raises:
        ValueError: encode or decode fails.
    """
    failed: Exception | None = None
    for text in (SAMPLE, ""):
        try:
            ids = ids_of(given.encode(text), name)
            if ids:
                text_of(given.decode(ids), name)
            return ids
        except WrongKindError:
            raise
        except (TypeError, AttributeError) as error:
            raise ValueError(f"encode or decode of {name} failed ({error}); {EXPECTED}.") from error
        except LookupError:  # an unknown word
            continue
        except Exception as error:
            failed = error
    if failed is not None and not isinstance(failed, ValueError):
        raise ValueError(f"encode or decode of {name} failed ({failed}); {EXPECTED}.") from failed
    return []


def ids_of(encoded: Any, name: str) -> list[int]:
    """Return token ids from the result of any package: a list, an array, or an object with one.

    Raises:
        ValueError: There are no ids. The message names the type.
    """
    found = encoded
    if isinstance(found, Mapping):
        found = found.get("input_ids")
    for attribute in ("ids", "input_ids"):
        found = getattr(found, attribute, found)
    found = found.tolist() if hasattr(found, "tolist") else found
    if isinstance(found, list | tuple) and len(found) == 1 and isinstance(found[0], list | tuple):
        found = found[0]  # a batch of one
    if isinstance(found, list | tuple):
        with_index = [getattr(i, "__index__", None) for i in found]
        if all(index is not None for index in with_index):
            ids = [int(index()) for index in with_index if index is not None]
            if all(i >= 0 for i in ids):
                return ids
    came = type(encoded).__name__
    if isinstance(found, list | tuple) and found:
        came = f"a list of {type(found[0]).__name__} ({str(found[0])[:20]!r} ...)"
    raise WrongKindError(f"encode of {name} gave {came}; expected a list of token ids from 0.")


def text_of(decoded: Any, name: str) -> str:
    """Return the result of decode as text; words in a list are joined.

    Raises:
        ValueError: The result is not text.
    """
    if isinstance(decoded, list | tuple) and all(isinstance(word, str) for word in decoded):
        decoded = " ".join(decoded)
    if isinstance(decoded, bytes):
        decoded = decoded.decode(errors="replace")
    if not isinstance(decoded, str):
        raise WrongKindError(f"decode of {name} gave {type(decoded).__name__}; expected a text.")
    return decoded


def _size(given: Any) -> int | None:
    """Return the number of ids of an object, or None if unknown."""
    for name in ("vocab_size", "n_vocab", "get_vocab_size", "get_piece_size", "__len__"):
        held = getattr(given, name, None)
        try:
            found = held() if callable(held) else held
        except Exception:  # a method of this name may need arguments
            continue
        if is_id(found) and found:
            return int(found)
    return None


def _roles(given: Any, table: WordTable | None) -> dict[str, Any]:
    """Return the ids of special tokens, from attributes and methods, or from names in its words."""
    found = {} if table is None else dict(table.roles)
    for role in ROLES:
        for name in (role, *OTHER_NAMES.get(role, ())):
            values = (_value(given, form.format(name)) for form in ATTRIBUTES)
            known = next((value for value in values if value is not None), None)
            if known is not None:
                found[role] = known
                break
    end = _value(given, "eot_token")  # tiktoken
    return found if end is None else {"eos": end, **found}


def _value(given: Any, name: str) -> int | None:
    held = getattr(given, name, None)
    try:
        held = held() if callable(held) else held
    except Exception:  # an unrelated method of this name
        return None
    return held if is_id(held) else None


class GivenText:
    """Adapter of a tokenizer of any package to our own interface.

    Args:
        given: An object with ``encode`` and ``decode``.
        ids: The special ids: ``pad_id``, ``bos_id``, ``eos_id``.
        table: Its words, if it has a table of them.
        size: Number of ids, or None if unknown.
    """

    def __init__(self, given: Any, ids: Ids, table: WordTable | None, size: int | None) -> None:
        self._given, self._name = given, type(given).__name__
        self.bos_id, self.eos_id = ids.get("bos_id"), ids.get("eos_id")
        self._special = {i for i in ids.values() if i is not None}
        self._of_bytes = getattr(given, "decode_single_token_bytes", None)  # tiktoken
        self.pieces: Sequence[str] = (
            Pieces(self._piece, size or 0) if table is None else table.words
        )

    def source_ids(self, text: str) -> list[int]:
        return self._encode(text)

    def target_ids(self, text: str) -> list[int]:
        ids = self._encode(text) if text else []
        start = [] if self.bos_id is None else [self.bos_id]
        if ids[:1] == start:
            ids = ids[1:]
        if ids and ids[-1] == self.eos_id:
            ids = ids[:-1]
        return [*start, *ids]

    def prompt_ids(self, text: str) -> list[int]:
        ids = self._encode(text)
        return ids[:-1] if len(ids) > 1 and ids[-1] == self.eos_id else ids

    def decode(self, ids: Sequence[int]) -> str:
        known = [int(i) for i in ids if i not in self._special]
        return text_of(self._call(self._given.decode, known), self._name) if known else ""

    def tokens(self, ids: Sequence[int]) -> Tokens:
        special = [i in self._special for i in ids]
        pieces = [self._label(int(i)) for i in ids]
        return arrange(ids, pieces, self._mark, special)

    def lost(self, text: str) -> tuple[str, ...]:
        return swallowed(text, self._encode)

    @property
    def _mark(self) -> str:
        return "Ġ" if self._of_bytes is not None else ""

    def _encode(self, text: str) -> list[int]:
        return ids_of(self._call(self._given.encode, whole(text)), self._name)

    def _label(self, token: int) -> str:
        """Return the label of a token; a token without text is labelled with its number."""
        return (
            (self._piece(token) or f"#{token}")
            if isinstance(self.pieces, Pieces)
            else (piece(self.pieces, token) or f"#{token}")
        )

    def _piece(self, token: int) -> str:
        try:
            if self._of_bytes is not None:
                return "".join(BYTE_LETTERS[byte] for byte in self._of_bytes(token))
            return text_of(self._given.decode([token]), self._name)
        except Exception:  # an unknown id
            return ""

    def _call(self, method: Callable[[Any], Any], value: Any) -> Any:
        """Return the result of a method of the given object.

        Raises:
            ValueError: The method failed. The message gives the reason.
        """
        try:
            return method(value)
        except BaseException as error:
            if not is_fault(error):
                raise
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
            if is_panic(error):
                reason = "panic"
            shown = repr(value if len(str(value)) <= 40 else f"{str(value)[:40]}…")
            raise ValueError(
                f"{method.__name__} of the tokenizer {self._name} failed at {shown} ({reason}). "
                "Take another text, or type token ids."
            ) from error


class Pieces(Sequence[str]):
    """Pieces of a tokenizer without a table of them, each created on access."""

    def __init__(self, make: Callable[[int], str], size: int) -> None:
        self._make, self._size = make, size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(self._make(token) for token in range(self._size)[index])
        return self._make(range(self._size)[index])
