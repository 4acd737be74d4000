"""Lists of words in memory: a list, a dictionary, or an object with either."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .elsewhere import texts
from .special_names import ROLES, is_id, model_ids, settle_ids, special_tokens
from .vocabularies import Ids, Vocabulary
from .word_list import WordText, is_mark, word_splitter

MOST_WORDS = 2**22
#: Methods and attributes of other packages for their words; the first match is used.
TABLES = (
    *("get_itos", "itos", "get_stoi", "stoi", "get_vocab", "vocab", "vocabulary", "symbols"),
    *("idx_to_token", "idx2token", "index2token", "token_to_idx", "token2idx", "token_to_id_map"),
    *("idx2word", "index2word", "id2word", "index_word", "ix_to_word", "i2w"),
    *("word2idx", "word2index", "word2id", "word_index", "word_to_ix", "w2i", "token2id"),
)
SIDES = (("src", "tgt"), ("source", "target"), ("src", "trg"), ("encoder", "decoder"))


@dataclass(frozen=True)
class WordTable:
    """Words by id, from a file or an object.

    Attributes:
        words: The words; an id without one has an empty text.
        roles: The ids of special tokens, by role.
        target: The words of the target, if one file holds both sides.
    """

    words: tuple[str, ...]
    roles: Mapping[str, int]
    target: WordTable | None = None

    @classmethod
    def of_plain(cls, told: Mapping[str, Any], deep: bool = True) -> WordTable:
        """Return the table of words that another process sent as plain data.

        Raises:
            ValueError: The data is invalid.
        """
        words = texts(told.get("words"), MOST_WORDS)
        held = told.get("roles")
        named = held if isinstance(held, Mapping) else {}
        roles = {role: named[role] for role in ROLES if is_id(named.get(role))}
        target = told.get("target")
        other = cls.of_plain(target, False) if deep and isinstance(target, Mapping) else None
        return cls(words, {role: i for role, i in roles.items() if i < len(words)}, other)


def word_table(given: Any) -> WordTable | None:
    """Return the words of a list or dictionary; None for other types.

    Raises:
        ValueError: The list or dictionary holds something else. The message names it.
    """
    if isinstance(given, Mapping):
        sides = next((pair for pair in SIDES if set(pair) <= set(given)), None)
        if sides is not None and not any(is_id(given[side]) for side in sides):
            source, target = (word_table(given[side]) for side in sides)
            if source is not None and target is not None:
                return WordTable(source.words, source.roles, target)
        for name in TABLES:  # {"itos": [...]}, {"word2idx": {...}}
            inner = given.get(name)
            if isinstance(inner, list | tuple | Mapping) and inner:
                return word_table(inner)
        return _table(_from_mapping(given))
    if isinstance(given, list | tuple):
        return _table(_from_list(given))
    return None


def table_of(thing: Any) -> WordTable | None:
    """Return the words that an object holds under one of the usual names, or None."""
    for name in TABLES:
        held = getattr(thing, name, None)
        if callable(held) and not isinstance(held, Mapping):
            with suppress(Exception):
                held = held()
        if isinstance(held, list | tuple | Mapping) and held:
            with suppress(ValueError):
                return word_table(held)
    return None


def words_vocabulary(table: WordTable, unknown: int | None = None) -> Vocabulary:
    """Return the vocabulary of a list of words; ``unknown`` is the id of missing words."""
    roles = table.roles
    missing = roles.get("unk") if unknown is None else unknown
    ids = {word: number for number, word in reversed(list(enumerate(table.words))) if word}
    single = any(word.isspace() for word in ids) and not any(
        len(word) > 1 and not is_mark(word) for word in ids
    )
    split: Callable[[str], list[str]] = word_splitter(ids)

    def make(settled: Ids) -> WordText:
        own = settle_ids(roles, settled)
        special = {own.get("pad_id"), own.get("bos_id"), own.get("eos_id")}
        special |= {i for role, i in roles.items() if role not in ("unk", "mask")}
        return WordText(
            [word or f"#{number}" for number, word in enumerate(table.words)],
            unknown=missing,
            bos_id=own.get("bos_id"),
            eos_id=own.get("eos_id"),
            special=[i for i in special - {missing} if i is not None],
            ends=False,
            split=split,
            joint="" if single else " ",
        )

    target = None if table.target is None else words_vocabulary(table.target)
    return Vocabulary(make, model_ids(roles), len(table.words), table, target)


def _table(words: Sequence[str]) -> WordTable:
    return WordTable(tuple(words), special_tokens(words))


def _from_list(given: Sequence[Any]) -> list[str]:
    odd = next((word for word in given if not isinstance(word, str)), None)
    if odd is not None or not given:
        held = "is empty" if not given else f"holds {type(odd).__name__} ({str(odd)[:40]})"
        raise ValueError(f"A list of words holds text only, and this one {held}.")
    return _checked(list(given))


def _from_mapping(given: Mapping[Any, Any]) -> list[str]:
    """Return words by id from ``{word: id}`` or ``{id: word}``."""
    if given and all(isinstance(word, str) for word in given.values()):
        numbers = {_number(key): word for key, word in given.items()}
        pairs = [(word, number) for number, word in numbers.items()]
    else:
        pairs = [(word, _number(number)) for word, number in given.items()]
    strange = next(((w, i) for w, i in pairs if not (isinstance(w, str) and is_id(i))), None)
    if strange is not None or not pairs:
        came = "nothing" if not pairs else f"{str(strange)[:60]}"
        raise ValueError(
            f"A dictionary of words leads from words to ids, or from ids to words; got {came}."
        )
    size = max(number for _, number in pairs) + 1
    if size > MOST_WORDS:
        raise ValueError(f"A vocabulary has at most {MOST_WORDS:,} words; got the id {size - 1:,}.")
    words = [""] * size
    for word, number in pairs:
        if words[number]:
            raise ValueError(
                f"The words {words[number][:40]!r} and {word[:40]!r} have the same id {number}; "
                "give each word an id of its own."
            )
        words[number] = word
    return _checked(words)


def _number(key: Any) -> Any:
    """Return an id from a JSON key, a NumPy integer, or unchanged."""
    if isinstance(key, str) and key.isascii() and key.isdecimal():
        return int(key)
    with suppress(TypeError, ValueError):
        return key if isinstance(key, bool) else operator.index(key)
    return key


def _checked(words: Iterable[str]) -> list[str]:
    found = list(words)
    if len(found) > MOST_WORDS:
        raise ValueError(f"A vocabulary has at most {MOST_WORDS:,} words; got {len(found):,}.")
    return found
