"""OpenNMT-py 3's ``model_step_K.pt``: weights, a separate generator, options and word lists.

Pre-norm with a last norm on both stacks. Embeddings are scaled by the root of their width, plus the
position table of the file. A masked score becomes -1e18, and a row with all keys masked stays
unmasked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...model import Transformer
from ...model.cache import DecoderCache
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ...preprocessing.vocabularies import Vocabularies
from ..common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    same_matrix,
    settings,
    sidecar,
    typed_ids,
    widths,
)
from ..common.build_reference import WORDS as WORDS
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.native import check_types
from ..common.provenance import resolve
from ..common.rename_keys import Table, layers, patterns, size
from ..common.stated import REFERENCE, stated
from ..common.word_checks import refuse_unknown
from ..files.reading import CheckpointError, Weights
from ..vocabularies.dictionaries import opennmt_words

NAME = "opennmt"
LINEAR = {
    "linear_query": "query",
    "linear_keys": "key",
    "linear_values": "value",
    "final_linear": "output",
}
LAYERS = {
    "encoder.transformer": {
        **{f"self_attn.{theirs}": f"self_attention.{ours}" for theirs, ours in LINEAR.items()},
        "layer_norm": "self_norm",
    },
    "decoder.transformer_layers": {
        **{f"self_attn.{theirs}": f"self_attention.{ours}" for theirs, ours in LINEAR.items()},
        **{f"context_attn.{theirs}": f"cross_attention.{ours}" for theirs, ours in LINEAR.items()},
        "layer_norm_1": "self_norm",
        "layer_norm_2": "cross_norm",
    },
}
FEED_FORWARD = {
    "feed_forward.w_1": "feed_forward.inner",
    "feed_forward.w_2": "feed_forward.outer",
    "feed_forward.layer_norm": "feed_forward_norm",
}
EMBEDDING = "{stack}.embeddings.make_embedding.emb_luts.0.weight"
POSITIONS = "{stack}.embeddings.make_embedding.pe.pe"
TABLE: Table = (
    (EMBEDDING, "{stack}.embedding.tokens.weight"),
    (POSITIONS, "{stack}.embedding.positions.table"),
    *(
        (
            f"{layers}.{{n}}.{theirs}.{{part}}",
            f"{layers.partition('.')[0]}.layers.{{n}}.{ours}.{{part}}",
        )
        for layers, parts in LAYERS.items()
        for theirs, ours in (parts | FEED_FORWARD).items()
    ),
    ("{stack}.layer_norm.{part}", "{stack}.norm.{part}"),
    ("generator.{part}", "output.{part}"),
)
#: The axes of a position table before d_model, for tables under mapped names.
TABLE_SHAPES = {POSITIONS: (-1, 1)}
NAMES = patterns(TABLE)
STACKS = ("encoder", "decoder")
#: Biases that a model can be trained without, by the module's names.
OPTIONAL = (
    "{stack}.layers.{n}.{block}.output.bias",
    "{stack}.layers.{n}.feed_forward.{part}.bias",
)
#: Options that change the computation, and their supported values.
PLAIN_OPTIONS: dict[str, tuple[Any, ...]] = {
    "max_relative_positions": (0,),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "parallel_residual": (False,),
    "shared_layer_norm": (False,),
    "layer_norm": ("standard",),
    "num_kv": (0,),
    "multiquery": (False,),
    "generator_function": ("softmax",),
}
ACTIVATIONS = ("relu", "gelu")
#: Ids of a usual vocabulary; a guess if the file holds none.
USUAL = {"pad_id": 1, "bos_id": 2, "eos_id": 3}
TYPED = "The file holds no lists of words (vocab with src and tgt), so token ids are typed."


class Unemptied(Transformer):
    """Transformer in which a query without visible keys attends to all keys."""

    def encode(self, source: Tensor, source_mask: Tensor) -> Tensor:
        return super().encode(source, unemptied(source_mask))

    def causal_mask(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return unemptied(super().causal_mask(ids, mask))

    def states(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        return super().states(target, memory, unemptied(source_mask))

    def extend(
        self,
        ids: Tensor,
        cache: DecoderCache,
        memory: Tensor | None = None,
        source_mask: Tensor | None = None,
        visible: Tensor | None = None,
    ) -> Tensor:
        mask = None if source_mask is None else unemptied(source_mask)
        return super().extend(ids, cache, memory, mask, visible)


def unemptied(mask: Tensor) -> Tensor:
    """Return the mask (true = visible) with rows that are all false made all true."""
    return mask | ~mask.any(-1, keepdim=True)


def recognise(found: Candidate) -> bool:
    """Return True if the names are OpenNMT's, with an encoder and a decoder."""
    names = found.weights.tensors.keys()
    return {
        "encoder.transformer.0.self_attn.linear_keys.weight",
        "decoder.transformer_layers.0.context_attn.linear_keys.weight",
    } <= names


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by options and shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, weights do not fit, or options are not
            supported by this layout.
    """
    refuse_unknown(overrides, WORDS)
    weights = _with_generator(found.weights)
    named = tokenizer.named if isinstance(tokenizer, Vocabularies) else {}
    words, origins = _words(found, weights, overrides, named)
    rows = dict.fromkeys(("d_k", "d_v"), words["d_model"])
    if "heads" not in words:
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    add(words, origins, origins["heads"], widths(words["heads"], rows))
    notes: tuple[str, ...] = ()
    own = opennmt_words(_lists(weights), found.folder, words) or typed_ids(words)
    if tokenizer is None:
        tokenizer = own
        notes = (TYPED,) if isinstance(own, PlainIds) else ()
    elif isinstance(tokenizer, Vocabularies):
        tokenizer = tokenizer.fill(own)
    return build_reference_model(
        found,
        ReferencePlan(
            NAME,
            words,
            origins,
            TABLE,
            weights=weights,
            tokenizer=tokenizer,
            optional=OPTIONAL,
            stored={stack: size(weights, POSITIONS.format(stack=stack), 3) for stack in STACKS},
            make=Unemptied,
            notes=notes,
        ),
    )


def _with_generator(weights: Weights) -> Weights:
    """Return the weights with those of the generator, which the file stores separately."""
    held = weights.extra.get("generator")
    own = held if isinstance(held, Mapping) else {}
    added = {f"generator.{name}": w for name, w in own.items() if isinstance(w, Tensor)}
    return replace(weights, tensors=weights.tensors | added)


def _words(
    found: Candidate, weights: Weights, overrides: dict[str, Any], named: dict[str, int]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return all known options; only the heads may be missing.

    ``named`` are the special ids that a vocabulary of the user names.
    """
    options = settings(weights, "opt")
    _check_options(options, overrides)
    names = {"heads": "heads", "norm_eps": "norm_eps", "activation": "pos_ffn_activation_fn"}
    shapes = _measured(weights)
    words, origins = resolve(
        overrides,
        ("file", {word: options[name] for word, name in names.items() if name in options}),
        ("file", _ids(_lists(weights))),
        *stated(found, REFERENCE, shapes, named | sidecar(found, WORDS)),
        ("shapes", shapes),
        ("layout", {"norm": "pre", "mask_fill": -1e18, "output_bias": True}),
        ("layout" if options else "convention", {"norm_eps": 1e-6, "activation": "relu"}),
        ("layout", {"embedding_scale": math.sqrt(shapes["d_model"])}),
        ("convention", USUAL),
    )
    add(words, origins, "layout", PLAIN)
    check_types(words)
    return words, origins


def _check_options(options: dict[str, Any], overrides: dict[str, Any]) -> None:
    """Refuse models with another computation.

    Raises:
        CheckpointError: Names the option and its supported values.
    """
    allowed = PLAIN_OPTIONS | {"pos_ffn_activation_fn": ACTIVATIONS}
    if "activation" in overrides:
        del allowed["pos_ffn_activation_fn"]
    for name, values in allowed.items():
        if options.get(name, values[0]) not in values:
            raise CheckpointError(
                f"The file says {name}={options[name]!r}; only {' or '.join(map(str, values))} is "
                "supported. Build the model with OpenNMT-py and give the module to "
                "load(module, tokenizer=...)."
            )


def _lists(weights: Weights) -> dict[str, Any]:
    """Return the word lists in the file, as OpenNMT-py 3 keeps them; empty if there are none."""
    held = weights.extra.get("vocab")
    return dict(held) if isinstance(held, Mapping) else {}


def _ids(lists: dict[str, Any]) -> dict[str, int]:
    """Return special tokens from the word lists: padding of the source, start and end of the
    target.
    """
    start = lists.get("decoder_start_token", "<s>")
    wanted = {"pad_id": ("src", "<blank>"), "bos_id": ("tgt", start), "eos_id": ("tgt", "</s>")}
    return {
        word: list(lists[side]).index(piece)
        for word, (side, piece) in wanted.items()
        if isinstance(lists.get(side), list | tuple) and piece in lists[side]
    }


def _measured(weights: Weights) -> dict[str, Any]:
    """Return the options given by names and shapes."""
    source_vocab, width = size(weights, EMBEDDING.format(stack="encoder"))
    first = "encoder.transformer.0."
    return {
        "d_model": width,
        "source_vocab": source_vocab,
        "target_vocab": size(weights, EMBEDDING.format(stack="decoder"))[0],
        "d_ff": size(weights, first + "feed_forward.w_1.weight")[0],
        "encoder_layers": layers(weights, "encoder.transformer.{n}.layer_norm.weight"),
        "decoder_layers": layers(weights, "decoder.transformer_layers.{n}.layer_norm_1.weight"),
        "max_positions": min(size(weights, POSITIONS.format(stack=s), 3)[0] for s in STACKS),
        "attention_bias": first + "self_attn.linear_query.bias" in weights.tensors,
        "tied": _tied(weights),
    }


def _tied(weights: Weights) -> str:
    """Return the tables that share one matrix, by equal numbers."""
    table = EMBEDDING.format(stack="decoder")
    both = same_matrix(weights, table, EMBEDDING.format(stack="encoder"))
    output = same_matrix(weights, table, "generator.weight")
    if both and output:
        return "all"
    return "embeddings" if both else "output" if output else "none"
