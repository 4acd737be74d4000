"""Conversion of user input to model input: ids, and a mask of visible tokens.

Decoding and tracing share this module, so that a text always gives the same ids.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, cast

from ..checkpoints.common.model import Model
from ..core.errors import TooLongError
from ..core.interventions import Intervention, Pad
from ..preprocessing.tokenizers import PairTokenizer


def source_ids(model: Model, source: str | Iterable[SupportsIndex]) -> list[int]:
    """Return the ids a model reads: an encoded text, or the ids unchanged.

    Raises:
        ValueError: No tokens, an id outside the vocabulary, or more tokens than positions.
    """
    if isinstance(source, str):
        read = model.tokenizer.prompt_ids if reads_prompt(model) else model.tokenizer.source_ids
        return _checked(model, "source", read(source))
    return _checked(model, "source", source)


def reads_prompt(model: Model) -> bool:
    """Return True if a source is read without an end token, as a prompt.

    A decoder that classifies or embeds a text gets all tokens of the library's tokenizer.
    """
    goes_on = model.gives == "words" or not hasattr(model.tokenizer, "typed_ids")
    return model.kind == "decoder-only" and goes_on


def ids_and_segments(model: Model, source: Any) -> tuple[list[int], list[int] | None]:
    """Return the ids of a source and its token types, None if the model gets none.

    The tokenizer makes the types of a text or a pair of texts; ids have none.

    Raises:
        ValueError: See `source_ids`; or two texts for a model that reads one.
    """
    typed = getattr(model.tokenizer, "typed_ids", None)
    if isinstance(source, str) and typed is not None and not reads_prompt(model):
        ids, segments = typed(source)
        return source_ids(model, ids), _known_types(model, segments)
    if not (isinstance(source, tuple) and source and all(isinstance(s, str) for s in source)):
        return source_ids(model, source), None
    if not model.pairs or len(source) != 2:
        what = "two texts" if model.pairs else "one text"
        raise ValueError(f"The model {model.name!r} reads {what}; got {len(source)} of them.")
    ids, segments = cast(PairTokenizer, model.tokenizer).pair_ids(*source)
    return source_ids(model, ids), _known_types(model, segments)


def _known_types(model: Model, segments: list[int] | None) -> list[int] | None:
    """Return token types that the model has; none are passed if it has only one.

    Raises:
        ValueError: A type is beyond its table.
    """
    known, largest = model.config.get("type_vocab_size"), max(segments or [0])
    if known and known > 1 and largest >= known:
        raise ValueError(
            f"The tokenizer makes the token type {largest} and this model knows 0 to {known - 1}. "
            "Take the tokenizer that it was trained with."
        )
    return segments


def target_ids(model: Model, target: str | Iterable[SupportsIndex]) -> list[int]:
    """Return the decoder's input: start token, language if used, and pieces; or ids unchanged.

    Raises:
        ValueError: No tokens, an id outside the vocabulary, or more tokens than positions.
    """
    ids = model.tokenizer.target_ids(target) if isinstance(target, str) else target
    return _checked(model, "target", ids)


def target_pieces(model: Model, text: str) -> list[int]:
    """Return the pieces of a target text, without the tokens that precede every target."""
    read = getattr(model.tokenizer, "piece_ids", None)
    if read is not None:
        return [int(i) for i in read(text)]
    return [i for i in model.tokenizer.target_ids(text) if i != model.bos_id]


def padded_source(
    ids: Sequence[int], intervention: Intervention | None, pad_id: int | None
) -> tuple[list[int], list[bool]]:
    """Return source ids with the padding of a ``pad`` edit, and a mask of visible tokens.

    The mask has one entry per token: False at padding in the ids, and at the edit's padding unless
    it has ``masked: false``.

    Raises:
        ValueError: An edit needs padding and the model has no padding token.
    """
    mask = [token != pad_id for token in ids]
    edit = next((e for e in intervention or () if isinstance(e, Pad)), None)
    if edit is None:
        return list(ids), mask
    if pad_id is None:
        raise ValueError(
            "The edit 'pad' needs a padding token and this model has none; take the edit out."
        )
    return [*ids, *[pad_id] * edit.count], mask + [not edit.masked] * edit.count


def refuse_padding(intervention: Intervention | None, why: str) -> None:
    """Raise if an edit appends padding to an input that has none.

    Raises:
        ValueError: An edit appends padding; ``why`` is the reason.
    """
    if any(isinstance(edit, Pad) for edit in intervention or ()):
        raise ValueError(f"The edit 'pad' needs a padding token, and {why}.")


def vocabulary_ids(model: Model, side: str, ids: Iterable[SupportsIndex]) -> list[int]:
    """Return integers that are in a side's vocabulary; for a batch of one, those of its row.

    Raises:
        ValueError: The ids are invalid.
    """
    shape = tuple(getattr(ids, "shape", ()))
    if len(shape) == 2:  # as tokenizers return them with return_tensors
        if shape[0] != 1:
            raise ValueError(
                f"The {side} is a batch of {shape[0]} rows of ids; give one row, such as ids[0]."
            )
        (ids,) = ids  # type: ignore[assignment]
    try:
        numbers = [operator.index(token) for token in ids]
    except TypeError as error:
        raise ValueError(f"The {side} must be text or whole token ids; {error}.") from error
    size = model.config.get(f"{side}_vocab") or model.config.get("vocab_size")
    if side == "source" and model.kind == "decoder-only":
        size = model.config.get("target_vocab") or size
    for token in numbers:
        if token < 0 or (size and token >= size):
            limit = f"0 to {size - 1}" if size else "0 on"
            raise ValueError(f"The {side} has the id {token}; this model knows ids from {limit}.")
    return numbers


def _checked(model: Model, side: str, ids: Iterable[SupportsIndex]) -> list[int]:
    numbers = vocabulary_ids(model, side, ids)
    if not numbers:
        raise ValueError(f"The {side} has no tokens; give at least one.")
    if model.max_tokens is not None and len(numbers) > model.max_tokens:
        told = (
            f"The {side} has {len(numbers):,} tokens and this model reads at most "
            f"{model.max_tokens:,}; shorten the text."
        )
        raise TooLongError(told, model.max_tokens) if side == "source" else ValueError(told)
    return numbers
