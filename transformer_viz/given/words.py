"""Tokens from strings of a tokenizer, or from ids with the tokenizer."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.trace_parts import Tokens
from ..preprocessing.hugging_face import HuggingFaceText
from ..preprocessing.tokenizers import arrange

#: Spellings of special tokens: [CLS], <s>, </s>, <|endoftext|>, <pad>, <extra_id_0>.
SPECIAL = re.compile(
    r"\[(CLS|SEP|PAD|MASK|BOS|EOS|unused\d+)\]|</?s>|<(pad|mask|bos|eos|cls|sep|extra_id_\d+"
    r"|start_of_turn|end_of_turn)>|<\|[^|<>]+\|>|<｜[^<>]+｜>"
)
MARKS = ("▁", "Ġ", "##", "</w>")


def tokens_of(given: Any, tokenizer: Any, what: str) -> Tokens:
    """Return tokens with unique labels, word groups by the vocabulary's marks, and special flags.

    Args:
        given: Strings of ``tokenizer.convert_ids_to_tokens``, or ids with a tokenizer (a list, an
            array or a tensor, also with a batch of one).
        tokenizer: Tokenizer of the transformers library, or None. It gives exact ids and special
            tokens; without it special tokens are recognised by their spelling.
        what: Name of the argument, for errors.

    Raises:
        ValueError: No tokens, ids without a tokenizer, or another type. The message names valid
            inputs.
    """
    found = _flat(given, what)
    if not found:
        raise ValueError(f"{what}= is empty; give one token for each row of the weights.")
    words = [isinstance(one, str) for one in found]
    if all(words):
        return _spelled(found) if tokenizer is None else _known(found, tokenizer)
    try:
        ids = [operator.index(one) for one in found]
    except TypeError as error:
        raise ValueError(f"{what}= takes strings, or ids with tokenizer=; {error}.") from error
    if tokenizer is None:
        raise ValueError(
            f"{what}= are ids; give the strings (tokenizer.convert_ids_to_tokens(ids)), or the "
            "tokenizer too: tokenizer=tokenizer."
        )
    return HuggingFaceText(tokenizer).tokens(ids)


def _flat(given: Any, what: str) -> list[Any]:
    if isinstance(given, str):
        raise ValueError(
            f"{what}= is one text; give its tokens, one for each row of the weights: "
            "tokenizer.convert_ids_to_tokens(input_ids[0])."
        )
    if isinstance(given, Mapping):
        raise ValueError(
            f"{what}= is {type(given).__name__} with {', '.join(map(str, given))}; give one token "
            'for each row of the weights: tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]).'
        )
    if given is None:
        raise ValueError(f"{what}= is missing; give one token for each row of the weights.")
    plain = given.tolist() if hasattr(given, "tolist") else list(given)
    if plain and isinstance(plain[0], list | tuple):
        if len(plain) != 1:
            raise ValueError(
                f"{what}= has {len(plain)} rows; give those of one sequence, such as ids[0]."
            )
        plain = list(plain[0])
    return [one.item() if hasattr(one, "item") else one for one in plain]


def _known(pieces: Sequence[str], tokenizer: Any) -> Tokens:
    """Return tokens with the ids of a tokenizer; unknown strings are kept without ids."""
    ids = tokenizer.convert_tokens_to_ids(list(pieces))
    if tokenizer.convert_ids_to_tokens(ids) == list(pieces):
        return HuggingFaceText(tokenizer).tokens(ids)
    return _spelled(pieces)


def _spelled(pieces: Sequence[str]) -> Tokens:
    counts = {
        mark: sum(p.endswith(mark) if mark == "</w>" else p.startswith(mark) for p in pieces)
        for mark in MARKS
    }
    mark = max(counts, key=lambda name: counts[name])
    special = [SPECIAL.fullmatch(piece) is not None for piece in pieces]
    return arrange((), list(pieces), mark if counts[mark] else "", special)


def tokens_within(tokens: Tokens, part: slice) -> Tokens:
    """Return a slice of a sentence's tokens."""
    return Tokens(
        ids=tokens.ids[part],
        pieces=tokens.pieces[part],
        labels=tokens.labels[part],
        words=tokens.words[part],
        special=tokens.special[part],
    )
