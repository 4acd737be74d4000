"""Native layout: the reference Transformer with its options in config.json.

A folder holds ``weights.safetensors`` (float16 or float32; tied matrices once), ``config.json``
(options of ``ModelConfig`` and the notes below), ``vocabulary.model`` and a card. A bare state dict
of a ``Transformer`` opens too, if a config.json or overrides give the options.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...model import ModelConfig, Transformer
from ...model.cache import DecoderCache, padded_before
from ...preprocessing.tokenizers import PlainIds, SentencePieceText, Tokenizer
from ...preprocessing.typed_text import TypedText
from ...preprocessing.vocabularies import Tables, Vocabularies
from ..files.reading import CheckpointError, Weights
from .bundled import PREFERRED, WEIGHTS, is_bundled, vocabulary_of
from .candidate import Candidate
from .fill_weights import build
from .model import Calls, Model
from .rename_keys import has_config
from .vocabularies import filled, settled

NAME = "transformer_viz"
#: Entries of config.json that are not options.
NOTES = (
    "layout",
    "kind",
    "title",
    "steps",
    "snapshots",
    "mask_id",
    "bleu",
    "bleu_seeds",
    "sure_from",
)
IDS = ("pad_id", "bos_id", "eos_id")
MAX_TABLE = 2**28  # numbers in a table that is computed, not read
TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number from 0"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "str": ((str,), "a word"),
}
WORDS = tuple(field.name for field in dataclasses.fields(ModelConfig))
NAMES: tuple[str, ...] = (
    r"(encoder|decoder)\.embedding\..*",
    r"(encoder|decoder)\.layers\.\d+\.(self|cross)_attention\.(query|key|value|output|score)\..*",
    r"(encoder|decoder)\.layers\.\d+\.(self|cross|feed_forward)_norm\..*",
    r"(encoder|decoder)\.layers\.\d+\.feed_forward\.(inner|gate|outer)\..*",
    r"(encoder|decoder)\.norm\..*",
    r"output\..*",
)
_FIELDS = {field.name: str(field.type) for field in dataclasses.fields(ModelConfig)}


def recognise(found: Candidate) -> bool:
    """Return True if the config names this layout, or a weight bears one of its names."""
    first = {f"{stack}.layers.0.self_attention.query.weight" for stack in ("encoder", "decoder")}
    return found.config.get("layout") == NAME or not first.isdisjoint(found.weights.tensors)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer of these options with the file's weights, in float32.

    Raises:
        CheckpointError: Options are missing, unknown or impossible, or weights do not fit.
    """
    weights, config = found.weights, found.config
    words, provenance = _words(weights, config, overrides)
    module = build(lambda: Transformer(words), weights)
    assert isinstance(module, Transformer)
    folder = found.folder
    pieces, tables, note = vocabulary_of(folder), tables_of(module), ""
    if tables.source == tables.target:  # vocabulary.model serves both sides
        tables = dataclasses.replace(tables, shared=tables.shared is not None or None)
    if tokenizer is None and pieces.is_file() and tables.shared is not False:
        tokenizer = vocabulary(pieces, words)
    else:
        tokenizer, note = filled(found, tokenizer, words.to_dict())
    notes = [note] if note else []
    if tokenizer is not None:
        tokenizer, more = settled(tokenizer, special_ids(words.to_dict()), tables)
        notes += more
    return dataclasses.replace(
        wrap(module, tokenizer, name_of(weights.path)),
        notes=tuple(notes),
        title=str(config.get("title", "")),
        mask_id=_mask_id(config, words),
        file_dtype=weights.dtype,
        hash=found.hash,
        folder=folder,
        provenance=provenance,
    )


def wrap(
    module: Transformer,
    tokenizer: Tokenizer | None = None,
    name: str = "transformer in memory",
    *,
    device: str | None = None,
    **overrides: Any,
) -> Model:
    """Return a Model of a reference Transformer in memory, put into evaluation mode.

    Raises:
        CheckpointError: Overrides were given; a module in memory cannot change its options.
    """
    if overrides:
        raise CheckpointError(
            f"A Transformer in memory is built already; {next(iter(overrides))} cannot be "
            "overridden. Build it with another ModelConfig."
        )
    config = module.config
    module.eval()
    if device is not None:
        module.to(device)
    first = next(module.parameters())
    ids, provenance = special_ids(config.to_dict()), dict.fromkeys(config.to_dict(), "module")
    notes: tuple[str, ...] = ()
    if isinstance(tokenizer, Vocabularies):
        named = {word: i for word, i in tokenizer.named.items() if ids[word] is None}
        ids, provenance = ids | named, provenance | dict.fromkeys(named, "sidecar")
        tokenizer, notes = settled(tokenizer, ids, tables_of(module))
    return Model(
        name=name,
        module=module,
        kind=config.kind,
        config=config.to_dict(),
        tokenizer=_plain_ids(config) if tokenizer is None else tokenizer,
        device=str(first.device),
        calls=make_calls(module),
        layout=NAME,
        takes="text" if config.source_vocab or config.kind == "decoder-only" else "vectors",
        gives="words" if config.target_vocab else "vectors",
        max_tokens=config.max_positions,
        dtype=str(first.dtype).removeprefix("torch."),
        provenance=provenance,
        notes=notes,
        **ids,
    )


def make_calls(module: Transformer) -> Calls:
    """Return the calls of a reference Transformer; ``source_mask`` ``[batch, token]`` true =
    visible.
    """
    config = module.config

    def wide(mask: Tensor | None) -> Tensor | None:  # [B, K] -> [B, 1, 1, K]
        return None if mask is None else mask[:, None, None, :]

    def checked(ids: Tensor) -> Tensor:
        if config.positions != "none" and ids.shape[1] > config.max_positions:
            raise ValueError(
                f"The input has {ids.shape[1]} tokens; this model has {config.max_positions} "
                "positions. Shorten the text."
            )
        return ids

    def encode(source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        mask = wide(source_mask)
        checked(source)
        return module.encode(source, module.padding_mask(source) if mask is None else mask)

    def states(target: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        if source_mask is None:
            source_mask = torch.ones(memory.shape[:2], dtype=torch.bool, device=memory.device)
        mask = wide(source_mask)
        assert mask is not None
        return module.states(checked(target), memory, mask)

    def decode(target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        return module.logits(states(target, memory, source_mask))

    def following(target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        return module.logits(states(target, memory, source_mask)[:, -1:])

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        if config.kind == "decoder-only" and source_mask is not None:
            length = checked(source).shape[1]
            past = torch.ones(length, length, dtype=torch.bool, device=source.device).tril()
            return module.logits(module.decoder(source, source_mask[:, None, None, :] & past))
        result: Tensor = module(source, target, wide(source_mask))
        return result

    twofold = config.kind == "encoder-decoder"
    words = config.decoder_layers and config.target_vocab
    return Calls(
        forward,
        encode=encode if config.encoder_layers else None,
        decode=decode if twofold else None,
        following=following if twofold else None,
        reader=partial(NativeReader, module) if words else None,
    ).standing_in(make_calls)


class NativeReader:
    """Reader with the cache of a reference Transformer; see :class:`Reader`."""

    def __init__(self, module: Transformer, memory: Tensor | None, source_mask: Tensor | None):
        self.module, self.memory = module, memory
        self.mask = source_mask  # [row, token]: of the memory, or of the first tokens without one
        if memory is not None and source_mask is None:
            self.mask = torch.ones(memory.shape[:2], dtype=torch.bool, device=memory.device)
        self.cache = DecoderCache.empty(len(module.decoder.layers))

    def read(self, ids: Tensor) -> Tensor:
        module, memory, mask = self.module, self.memory, self.mask
        if memory is not None:
            assert mask is not None
            states = module.extend(ids, self.cache, memory, mask[:, None, None, :])
        else:  # tokens after the first ones are never padding
            states = module.extend(ids, self.cache, visible=mask)
            self.mask = None
        return module.logits(states[:, -1:])

    def of_memory(self) -> list[tuple[Tensor | None, Tensor]]:
        """Return keys and values of the memory, by layer; shared by all texts about this source."""
        assert self.memory is not None
        layers: Any = self.module.decoder.layers
        return [layer.cross_attention.keys_and_values(self.memory) for layer in layers]

    def begin(self, of_memory: Sequence[tuple[Tensor | None, Tensor]]) -> None:
        """Start before the first token of each text, so that others can be joined with it."""
        assert self.memory is not None
        config, rows = self.module.config, len(self.memory)
        self.cache.text = torch.zeros(rows, 0, dtype=torch.long, device=self.memory.device)
        for layer, (keys, values) in zip(self.cache.layers, of_memory, strict=True):
            layer.cross.add(keys, values)
            layer.own.add(
                None if keys is None else self.memory.new_zeros(rows, config.heads, 0, config.d_k),
                self.memory.new_zeros(rows, config.heads, 0, config.d_v),
            )

    def select(self, rows: Tensor) -> None:
        self.cache.select(rows)  # the memory's keys and values too
        self.mask = None if self.mask is None else self.mask[rows]

    @property
    def rows(self) -> int:
        """Number of texts being read."""
        return 0 if self.cache.text is None else len(self.cache.text)

    @classmethod
    def joined(cls, readers: Sequence[NativeReader]) -> NativeReader:
        """Return a reader of the rows of all readers, each row after masked padding.

        All readers have read something or begun, and either all or none have a padding mask.
        """
        made = cls(readers[0].module, readers[0].memory, None)
        made.cache = DecoderCache.joined([reader.cache for reader in readers])
        masks = [reader.mask for reader in readers if reader.mask is not None]
        made.mask = padded_before(masks, 1) if masks else None
        return made

    def part(self, rows: slice, memory: int) -> NativeReader:
        """Return some joined rows of one length as a separate reader; ``memory``: source tokens."""
        made = NativeReader(self.module, self.memory, None)
        made.cache = self.cache.part(rows, memory)
        made.mask = None if self.mask is None else self.mask[rows, -memory:]
        return made


def _words(
    weights: Weights, config: dict[str, Any], overrides: dict[str, Any]
) -> tuple[ModelConfig, dict[str, str]]:
    """Return the configuration, and the origin of each option: file, override or default."""
    file = {word: value for word, value in config.items() if word not in NOTES}
    check_types(file | overrides)
    if ("heads" in overrides or "d_model" in overrides) and file.get("heads"):
        for width in ("d_k", "d_v"):  # a width that only followed from others is derived anew
            if file.get(width) == file.get("d_model", 0) / file["heads"]:
                file.pop(width)
    check_sizes(file | overrides, weights)
    try:
        words = ModelConfig.from_dict(file | overrides)
        check_ids(file | overrides, words)
    except (ValueError, ArithmeticError) as error:
        hint = "" if config else " There is no config.json beside it; give the words as overrides."
        raise CheckpointError(f"{weights.path.name}: {error}{hint}") from error
    origin = {word: "override" if word in overrides else "file" for word in file | overrides}
    return words, {word: origin.get(word, "default") for word in words.to_dict()}


def _mask_id(config: dict[str, Any], words: ModelConfig) -> int | None:
    """Return the id of the mask token, which must be in the vocabulary."""
    mask = config.get("mask_id")
    if mask is None:
        return None
    if type(mask) is not int or not 0 <= mask < words.source_vocab:
        raise CheckpointError(
            f"The configuration word mask_id needs a token from 0 to {words.source_vocab - 1}; "
            f"got {mask!r}."
        )
    return mask


def check_types(settings: dict[str, Any]) -> None:
    """Refuse values of the wrong type (``"heads": "8"``) before they are used."""
    for word, value in settings.items():
        wanted = _FIELDS.get(word, "")
        if (word == "mask_fill" and value == "-inf") or wanted not in TYPES:
            continue
        types, words_for_it = TYPES[wanted]
        right = isinstance(value, types) and (wanted == "bool") == isinstance(value, bool)
        none = word in IDS and value == -1  # a model without such a token
        if not right or (wanted == "int" and value < 0 and not none):
            raise CheckpointError(
                f"The configuration word {word} needs {words_for_it}; got {value!r}."
            )


def check_sizes(settings: dict[str, Any], weights: Weights) -> None:
    """Refuse sizes that would cost time or memory before the file could contradict them."""
    asks = "config asks" if has_config(weights) else "model asks"
    layers = settings.get("encoder_layers", 0) + settings.get("decoder_layers", 0)
    if layers > len(weights.tensors):
        raise CheckpointError(
            f"The {asks} for {layers} layers, but {weights.path.name} holds only "
            f"{len(weights.tensors)} weights."
        )
    table = settings.get("max_positions", 0) * settings.get("d_model", 0)
    if table > MAX_TABLE:
        raise CheckpointError(
            f"The {asks} for a position table of {table:,} numbers, and {MAX_TABLE:,} are "
            "the most; give a smaller max_positions."
        )


def check_ids(given: Mapping[str, Any], words: ModelConfig) -> None:
    """Refuse special token ids that the model does not have.

    Raises:
        ValueError: Names the token, and the largest valid id.
    """
    size = max(words.source_vocab, words.target_vocab)
    for word in IDS:
        if size and given.get(word, -1) >= size:
            raise ValueError(f"{word}={given[word]}, but this model knows tokens 0 to {size - 1}.")


def special_ids(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return padding, start and end token; None for one that the model does not have (-1)."""
    return {word: None if settings[word] < 0 else settings[word] for word in IDS}


def tables_of(module: Transformer) -> Tables:
    """Return the embedding tables of a reference Transformer; equal tables share a vocabulary."""
    config, shared = module.config, None
    if config.kind == "encoder-decoder":
        stacks: Any = (module.encoder, module.decoder)
        tables = [getattr(stack.embedding, "tokens", None) for stack in stacks]
        known = [table.weight for table in tables if table is not None]
        shared = len(known) == 2 and known[0].shape == known[1].shape and torch.equal(*known)
    return Tables(config.source_vocab or None, config.target_vocab or None, shared)


def vocabulary(path: Path, words: ModelConfig) -> SentencePieceText:
    """Return the vocabulary beside the weights, and check that its size fits the model."""
    kind = TypedText if is_bundled(path) else SentencePieceText
    text = kind(path, bos_id=words.bos_id, eos_id=words.eos_id)
    size = max(words.source_vocab, words.target_vocab)
    if len(text.pieces) > size:
        raise CheckpointError(
            f"{path.name} has {len(text.pieces)} pieces, but the model beside it knows {size}; "
            "they do not belong together. Take the vocabulary that the model was trained with."
        )
    return text


def _plain_ids(words: ModelConfig) -> PlainIds:
    """Return the plain-ids tokenizer, bounded by the model's vocabulary."""
    return PlainIds(
        (words.source_vocab if words.encoder_layers else words.target_vocab) or None,
        target_size=words.target_vocab or None,
        **special_ids(words.to_dict()),
    )


def name_of(path: Path) -> str:
    """Return the folder's name, with the file's if the folder holds several checkpoints."""
    if path.name in PREFERRED:
        return path.parent.resolve().name
    beside, stem = (path.parent / WEIGHTS).is_file(), path.stem.removesuffix(".pth")  # of .pth.tar
    return f"{path.parent.resolve().name}/{stem}" if beside else stem
