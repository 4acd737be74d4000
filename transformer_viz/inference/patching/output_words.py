"""Positions of a word pair in two outputs, and the first piece of each word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...checkpoints.common.model import Model
from ...preprocessing.tokenizers import target_side
from ..token_ids import target_pieces, vocabulary_ids


class SameOutputs(ValueError):
    """Two outputs that do not diverge, so they do not determine a word pair."""


def parting(
    model: Model,
    own: list[int],
    theirs: list[int],
    texts: tuple[str, ...],
    words: Sequence[Any] | None,
) -> tuple[list[int], Sequence[Any] | None, str]:
    """Return the tokens before the compared position, the pair there, and its description."""
    common = next(
        (n for n, (a, b) in enumerate(zip(own, theirs, strict=False)) if a != b),
        min(len(own), len(theirs)),
    )
    if words is None:
        if common == min(len(own), len(theirs)):
            raise SameOutputs(
                f"The model writes “{texts[0]}” for the one and “{texts[1]}” for the other "
                "sentence, which part nowhere; name a pair of words (words=) and, if need be, what "
                "stands before it (target=)."
            )
        return own[:common], None, "where the two outputs part"
    first, second = words
    for ids, word, whose in (
        (own, first, "its own output"),
        (theirs, second, "the other sentence's output"),
        (own, second, "its own output"),
        (theirs, first, "the other sentence's output"),
    ):
        places = _places(model, ids, word)
        if places:
            best = common if common in places else places[-1]
            return ids[:best], words, f"where “{word}” stands in {whose}"
    raise ValueError(
        f"Neither “{first}” nor “{second}” stands in the outputs, “{texts[0]}” and “{texts[1]}”; "
        "name words of these, or give the words before the place (target=)."
    )


def _places(model: Model, ids: list[int], word: Any) -> list[int]:
    """Return the positions of a word in an output, as indices of its first token."""
    if not isinstance(word, str):
        return [n for n, i in enumerate(ids) if i == word]
    tokens = target_side(model.tokenizer).tokens(ids)
    starts: dict[int, int] = {}
    for place, number in enumerate(tokens.words):
        starts.setdefault(number, place)
    found = []
    for number, start in starts.items():
        end = max(n for n, w in enumerate(tokens.words) if w == number) + 1
        text = target_side(model.tokenizer).decode(ids[start:end]).strip()
        if text == word.strip():
            found.append(start)
    return found


def first_piece(model: Model, own_ids: list[int], held: list[int], word: Any) -> int:
    """Return the id that a word starts with after the given ids."""
    if not isinstance(word, str):
        return vocabulary_ids(model, "target", [word])[0]
    tokenizer = target_side(model.tokenizer)
    before = tokenizer.decode(held)
    alone = target_pieces(model, word)
    start = target_pieces(model, before) if before else []
    both = target_pieces(model, f"{before} {word}".strip())
    ids = both[len(start) :] if both[: len(start)] == start else alone
    if not ids:
        raise ValueError(f"The model knows no piece of {word!r}; name another word.")
    return ids[0]
