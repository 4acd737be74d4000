"""The translator of PyTorch's tutorial "Language Translation with nn.Transformer".

Its file is a bare state dict of a ``Seq2SeqTransformer`` without heads, norm, activation and
vocabulary. Unknown 0, padding 1, start 2, end 3. Unlike the reference Transformer it hides padding
in the target too, and the output of a query without visible keys is zero.

Users' own models around ``nn.Transformer`` open as this layout with ``names=``: with learned,
computed or no positions, one embedding for both sides, an output layer without bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ...model.transformer import ACTIVATIONS
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ...preprocessing.vocabularies import Tables
from ..common import native
from ..common.build_reference import PLAIN, configured, same_matrix, sidecar, special_ids
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.fill_weights import build
from ..common.model import Calls, Model
from ..common.provenance import resolve
from ..common.rename_keys import Table, map_names
from ..common.stated import REFERENCE, stated
from ..common.vocabularies import filled, settled
from ..common.word_checks import refuse_unknown
from ..files.reading import CheckpointError, Weights
from . import torch_core
from .own_models.torch_embeddings import (
    COMPUTED,
    Embedding,
    make_positions,
    position_tables,
    position_words,
)
from .torch_core import Stack, built_in, core, hidden, later, sizes, stacks_of

NAME = "torch_tutorial_seq2seq"
PREFIX = "transformer."
SOURCE, TARGET = "src_tok_emb.embedding.weight", "tgt_tok_emb.embedding.weight"
OUTPUT = "generator.weight"
POSITIONS = "positional_encoding.pos_embedding"
#: The second only if the target has a separate table.
TABLES = {"source": POSITIONS, "target": "tgt_positional_encoding.pos_embedding"}
OTHERS: tuple[str, ...] = (
    *(rf"transformer\.{name}" for name in torch_core.NAMES),
    r"(src|tgt)_tok_emb\.embedding\.weight",
    r"generator\.(weight|bias)",
)
NAMES: tuple[str, ...] = (*OTHERS, r"(tgt_)?positional_encoding\.pos_embedding")
#: Names of the file and of the reference Transformer, for name proposals.
ROLES: Table = (
    *((PREFIX + theirs, ours) for theirs, ours in torch_core.ROLES),
    (SOURCE, "encoder.embedding.tokens.weight"),
    (TARGET, "decoder.embedding.tokens.weight"),
    (TABLES["source"], "encoder.embedding.positions.table"),
    (TABLES["target"], "decoder.embedding.positions.table"),
    ("generator.{part}", "output.{part}"),
)
WORDS: tuple[str, ...] = (
    *torch_core.WORDS,
    *native.IDS,
    *("embedding_scale", "positions", "max_positions", "tied", "output_bias", "logit_scale"),
)
TUTORIAL = {"output_bias": True}  # fixed option of its code
#: Defaults of the tutorial's code; many share its classes with other arguments and vocabularies.
CUSTOMARY = torch_core.CUSTOMARY | {"pad_id": 1, "bos_id": 2, "eos_id": 3}
STACKS = ("encoder", "decoder")
CLOSED = "The tutorial's vocabulary is not in its file, so token ids are typed."
NO_WORDS = "No vocabulary was given, so token ids are typed."


class Seq2Seq(nn.Module):
    """Source and target ids ``[batch, token]`` become logits ``[batch, target token, vocabulary]``.

    ``source_mask`` ``[batch, token]`` is true for visible source tokens.
    """

    def __init__(
        self,
        stacks: Mapping[str, Stack],
        settings: Mapping[str, Any],
        shapes: Mapping[str, tuple[int, ...]],
    ):
        super().__init__()
        width, scale, tied = settings["d_model"], settings["embedding_scale"], settings["tied"]
        transformer = core(stacks, settings)
        assert isinstance(transformer, nn.Transformer)
        self.transformer = transformer
        rows = settings["target_vocab"]
        self.src_tok_emb = Embedding(settings["source_vocab"], width, scale)
        self.tgt_tok_emb = Embedding(shapes.get("target tokens", (rows,))[0], width, scale)
        self.positional_encoding = make_positions(settings, shapes.get("source"))
        self.tgt_positional_encoding = (
            make_positions(settings, shapes["target"]) if "target" in shapes else None
        )
        self.generator = nn.Linear(width, rows, bias=settings["output_bias"])
        if tied in ("embeddings", "all"):
            self.src_tok_emb.embedding.weight = self.tgt_tok_emb.embedding.weight
        if tied in ("output", "all"):
            self.generator.weight = self.tgt_tok_emb.embedding.weight
        self.pad_id, self.logit_scale = settings["pad_id"], settings["logit_scale"]

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        x = self.src_tok_emb(source)
        x = x if self.positional_encoding is None else self.positional_encoding(x)
        return self.transformer.encoder(x, src_key_padding_mask=hidden(source_mask))

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor | None) -> Tensor:
        x, positions = self.tgt_tok_emb(target), self.tgt_positional_encoding
        positions = self.positional_encoding if positions is None else positions
        x = x if positions is None else positions(x)
        states = self.transformer.decoder(
            x,
            memory,
            tgt_mask=later(target.shape[1], target.device),
            tgt_key_padding_mask=target == self.pad_id,
            memory_key_padding_mask=hidden(source_mask),
        )
        return self.generator(states) * self.logit_scale


def recognise(found: Candidate) -> bool:
    """Return True if the tutorial's names of embeddings are beside an nn.Transformer.

    With mapped names, one embedding may be missing; both sides then share the other.
    """
    tensors = found.weights.tensors
    stacks = (f"{PREFIX}{side}.layers.0.self_attn.in_proj_weight" for side in STACKS)
    if {SOURCE, TARGET, POSITIONS} <= set(tensors):
        return True
    tables = SOURCE in tensors and (TARGET in tensors or found.renamed)
    return tables and all(name in tensors for name in stacks)


def settled_words(weights: Weights) -> tuple[str, ...]:
    """Return the options that PyTorch's own layers fix, for mapped names of weights."""
    return built_in(weights)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the tutorial's model with the file's weights.

    Raises:
        CheckpointError: Options are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    beside = sidecar(found, WORDS)
    stacks, weights = _stacks(found), found.weights
    shapes = _sizes(found, stacks)
    width = shapes["d_model"]
    named = special_ids(found, tokenizer, shapes) | beside
    told = stated(found, REFERENCE, shapes, named, activations=tuple(ACTIVATIONS))
    if "heads" not in overrides and not any("heads" in given for _, given in told):
        rows = {"d_k": width}
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    tables = position_tables(weights, OTHERS, TABLES, width)
    stored = position_words(weights, tables, beside | overrides, width)
    words, origins = resolve(
        overrides,
        *told,
        ("file", _tied(found)),
        ("shapes", shapes),
        ("file", stored),
        ("convention", _missing(found) | COMPUTED),
        ("layout", TUTORIAL | {"embedding_scale": math.sqrt(width)}),
        ("convention", CUSTOMARY),
        ("layout", PLAIN),
    )
    torch_core.check(words, stacks, found)
    if words["positions"] == "none":
        weights = replace(
            weights, tensors={n: t for n, t in weights.tensors.items() if n not in tables.values()}
        )
        tables = {}
    config = configured(words, weights)
    sized = {side: tuple(weights.tensors[name].shape) for side, name in tables.items()}
    if TARGET in weights.tensors:
        sized["target tokens"] = tuple(weights.tensors[TARGET].shape)
    table = tuple(
        (name, f"{TABLES[side].partition('.')[0]}.table") for side, name in tables.items()
    )
    module = build(lambda: Seq2Seq(stacks, words, sized), weights, table)
    assert isinstance(module, Seq2Seq)
    ids = native.special_ids(words)
    given, note = filled(found, tokenizer)
    notes = [note] if note else [] if given is not None else [NO_WORDS if found.renamed else CLOSED]
    if given is None:
        given = PlainIds(config.source_vocab, target_size=config.target_vocab, **ids)
    shared = same_matrix(found.weights, SOURCE, TARGET)
    text, more = settled(given, ids, Tables(config.source_vocab, config.target_vocab, shared))
    followed = dict.fromkeys(("d_k", "d_v"), origins["heads"])
    return Model(
        name=native.name_of(found.path),
        module=module,
        kind="encoder-decoder",
        config=config.to_dict(),
        tokenizer=text,
        device="cpu",
        calls=make_calls(module),
        layout=NAME,
        max_tokens=None if config.positions == "none" else config.max_positions,
        hash=found.hash,
        file_dtype=str(weights.tensors[SOURCE].dtype).removeprefix("torch."),
        folder=found.folder,
        title=str(found.config.get("title", "")),
        notes=(*notes, *more),
        provenance={
            word: origins.get(word, followed.get(word, "default")) for word in config.to_dict()
        },
        **ids,
    )


def make_calls(module: Seq2Seq) -> Calls:
    """Return the tutorial's calls; ``source_mask`` ``[batch, token]`` true = visible."""

    def encode(source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        return module.encode(
            source, source != module.pad_id if source_mask is None else source_mask
        )

    def forward(
        source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
    ) -> Tensor:
        assert target is not None
        mask = source != module.pad_id if source_mask is None else source_mask
        return module.decode(target, module.encode(source, mask), mask)

    def decode(target: Tensor, memory: Tensor, source_mask: Tensor | None = None) -> Tensor:
        return module.decode(target, memory, source_mask)

    return Calls(forward, encode, decode)


def _stacks(found: Candidate) -> dict[str, Stack]:
    stacks = stacks_of(found.weights, PREFIX)
    looking = [name for name, stack in stacks.items() if stack.memory]
    if set(stacks) != set(STACKS) or looking != ["decoder"]:
        raise CheckpointError(
            f"{found.path.name} lacks the weights of an encoder or a decoder; the tutorial's model "
            f"has both. Save its whole state dict again{map_names(found.weights)}."
        )
    return stacks


def _sizes(found: Candidate, stacks: Mapping[str, Stack]) -> dict[str, Any]:
    """Return the options given by the shapes."""
    tensors, shared = found.weights.tensors, sizes(stacks)
    for name in (SOURCE, *(name for name in (TARGET, OUTPUT) if _needed(found, name))):
        tensor = tensors.get(name)
        if tensor is None or tensor.dim() != 2:
            raise CheckpointError(
                f"{name} in {found.path.name} is "
                f"{'missing' if tensor is None else list(tensor.shape)}; expected "
                f"[token, d_model]{map_names(found.weights)}."
            )
    target = next(name for name in (OUTPUT, TARGET, SOURCE) if name in tensors)
    bias = "generator.bias" in tensors
    return {
        **{word: shared[word] for word in ("d_model", "d_ff", "encoder_layers", "decoder_layers")},
        "final_norm": shared["final_norm"],
        "attention_bias": shared["bias"],
        "source_vocab": tensors[SOURCE].shape[0],
        "target_vocab": tensors[target].shape[0],
        **({"output_bias": bias} if bias or found.renamed else {}),
    }


def _needed(found: Candidate, name: str) -> bool:
    """Return True if a table is required (in the tutorial's own file) or present."""
    return name in found.weights.tensors or not found.renamed


def _missing(found: Candidate) -> dict[str, Any]:
    """Return the tied tables if the file of a user's own model lacks one of them."""
    lacks = {name for name in (TARGET, OUTPUT) if name not in found.weights.tensors}
    if not lacks or not found.renamed:
        return {}
    return {"tied": "all" if len(lacks) == 2 else "embeddings" if TARGET in lacks else "output"}


def _tied(found: Candidate) -> dict[str, Any]:
    """Return the tables that hold one matrix, if the file has all of them."""
    if not {SOURCE, TARGET, OUTPUT} <= found.weights.tensors.keys():
        return {}
    source = same_matrix(found.weights, TARGET, SOURCE)
    output = same_matrix(found.weights, TARGET, OUTPUT)
    if source and output:
        return {"tied": "all"}
    return {"tied": "embeddings" if source else "output" if output else "none"}
