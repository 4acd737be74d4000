"""Tokenizers of Hugging Face models: the library's own or others, for one side or for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...preprocessing.elsewhere import RemoteTokenizer
from ...preprocessing.fast_tokenizer import FastTokenizer
from ...preprocessing.given_tokenizers import library_vocabulary
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ...preprocessing.vocabularies import Tables, Vocabularies
from ..common.vocabularies import settled
from .parts import words_config

BASES = ("PreTrainedModel", "PreTrainedTokenizerBase")


def of_library(thing: Any) -> bool:
    """Whether a module or tokenizer in memory belongs to the transformers library."""
    return isinstance(thing, RemoteTokenizer | FastTokenizer) or any(
        base.__module__.startswith("transformers.") and base.__name__ in BASES
        for base in type(thing).__mro__
    )


def vocabulary_size(config: Any) -> int | None:
    """How many ids a model can read, where its config says it."""
    encoder = getattr(config, "encoder", None)  # of two models that were put together
    places = ((config, "src_vocab_size"), (config, "vocab_size"), (encoder, "vocab_size"))
    sizes = [getattr(place, name, None) for place, name in places]
    return next((size for size in sizes if isinstance(size, int) and size > 0), None)


def largest_vocabulary(config: Any) -> int | None:
    """How many ids the larger vocabulary of a model has, where its config says it."""
    decoder = getattr(config, "decoder", None)
    places = ((config, "tgt_vocab_size"), (config, "decoder_vocab_size"), (decoder, "vocab_size"))
    sizes = [vocabulary_size(config), *(getattr(place, name, None) for place, name in places)]
    return max((size for size in sizes if isinstance(size, int) and size > 0), default=None)


def as_vocabularies(tokenizer: Any) -> tuple[Any, Any]:
    """Vocabularies for a tokenizer of the library, any other as it is; and the library's among
    them, None where the source has none of it."""
    if of_library(tokenizer):
        tokenizer = Vocabularies(library_vocabulary(tokenizer))
    given = tokenizer.of_source if isinstance(tokenizer, Vocabularies) else None
    return tokenizer, given.given if given is not None and of_library(given.given) else None


def tokenizer_of(
    tokenizer: Any, ids: Mapping[str, Any], module: Any, decodes: bool, reads: str
) -> tuple[Tokenizer, tuple[str, ...]]:
    """The tokenizer of a model, and notes.

    Args:
        tokenizer: Ours, or `Vocabularies`; None for ids typed as numbers.
        ids: The special ids of the model.
        module: The model of the library.
        decodes: Whether it has a decoder beside an encoder.
        reads: What a source is: ``text``, ``audio`` or ``image``.

    Raises:
        CheckpointError: Vocabularies that do not fit the model.
    """
    tables = _tables(module, decodes, reads)
    if tokenizer is None:
        plain: dict[str, Any] = {word: ids.get(word) for word in ("pad_id", "bos_id", "eos_id")}
        return PlainIds(tables.source, target_size=tables.target, **plain), ()
    # of a model without a decoder beside an encoder, the library's tokenizer says how texts begin
    start = ids.get("bos_id") if decodes else None
    return settled(tokenizer, {**ids, "start_id": start}, tables)


def _tables(module: Any, decodes: bool, reads: str) -> Tables:
    """The vocabularies of a model of the library.

    Its families have one for both sides. Those with two are FSMT, Marian where it does not share
    its embeddings, and models that were put together of two others.
    """
    config = words_config(module.config)
    source, target = vocabulary_size(config), getattr(config, "tgt_vocab_size", None)
    if not decodes:
        return Tables(source)
    if reads != "text":  # the only words are those of the target
        return Tables(None, source, True)
    parts: list[Any] = [getattr(config, part, None) for part in ("encoder", "decoder")]
    if all(hasattr(part, "vocab_size") for part in parts):
        source, target = (part.vocab_size for part in parts)
        alike = source == target and parts[0].model_type == parts[1].model_type
        return Tables(source, target, alike)
    if target is not None:  # FSMT
        return Tables(source, target, False)
    written = getattr(config, "decoder_vocab_size", None)
    apart = getattr(config, "share_encoder_decoder_embeddings", True) is False
    return Tables(source, written or source, not apart and written in (None, source))
