"""minGPT's ``model.pt``: a bare state dict, in the names of GPT-2 or those of its first version.

The output layer has a separate matrix, and biases are always there. The first version (2020) has
separate queries, keys and values and the exact GELU; later ones use GELU's tanh formula. The number
of heads is known only if ``config.json`` beside it names a size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ..common.build_reference import WORDS as WORDS
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.rename_keys import Table, layers, patterns, size, without
from ..files.reading import Weights
from . import gpt, nanogpt

NAME = "mingpt"
EARLY: Table = (
    ("tok_emb.weight", "decoder.embedding.tokens.weight"),
    ("pos_emb", "decoder.embedding.positions.table"),
    ("blocks.{n}.ln1.{part}", "decoder.layers.{n}.self_norm.{part}"),
    ("blocks.{n}.ln2.{part}", "decoder.layers.{n}.feed_forward_norm.{part}"),
    ("blocks.{n}.attn.query.{part}", "decoder.layers.{n}.self_attention.query.{part}"),
    ("blocks.{n}.attn.key.{part}", "decoder.layers.{n}.self_attention.key.{part}"),
    ("blocks.{n}.attn.value.{part}", "decoder.layers.{n}.self_attention.value.{part}"),
    ("blocks.{n}.attn.proj.{part}", "decoder.layers.{n}.self_attention.output.{part}"),
    ("blocks.{n}.mlp.0.{part}", "decoder.layers.{n}.feed_forward.inner.{part}"),
    ("blocks.{n}.mlp.2.{part}", "decoder.layers.{n}.feed_forward.outer.{part}"),
    ("ln_f.{part}", "decoder.norm.{part}"),
    ("head.weight", "output.weight"),
)
#: The axes of a position table before d_model, for tables under mapped names.
TABLE_SHAPES = {"pos_emb": (1, -1), "{trunk}.wpe.weight": (-1,), "wpe.weight": (-1,)}
EARLY_MASK = "blocks.{n}.attn.mask"
NAMES = (*gpt.NAMES, *patterns((*EARLY, (EARLY_MASK, ""))))
#: Layers, heads and width of minGPT's named sizes.
SIZES = {
    "openai-gpt": (12, 12, 768),
    "gpt2": (12, 12, 768),
    "gpt2-medium": (24, 16, 1024),
    "gpt2-large": (36, 20, 1280),
    "gpt2-xl": (48, 25, 1600),
    "gopher-44m": (8, 16, 512),
    "gpt-mini": (6, 6, 192),
    "gpt-micro": (4, 4, 128),
    "gpt-nano": (3, 3, 48),
}


def recognise(found: Candidate) -> bool:
    """Return True if the names are GPT-2's with a separate output layer, or those of 2020."""
    fused = gpt.fused(found)
    if fused is None:
        return _is_early(found.weights)
    return gpt.is_linear(fused) and not nanogpt.recognise(found)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by the shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights or a vocabulary do not fit.
    """
    weights, early = found.weights, _is_early(found.weights)
    shapes = _measured(weights) if early else gpt.measured(weights)
    return gpt.opened(
        found,
        NAME,
        tokenizer,
        overrides,
        ("sidecar", _heads(found.config, shapes)),
        ("layout", {"tied": "none"}),
        *_activation(found.config, early),
        shapes=shapes,
        weights=without(weights, EARLY_MASK) if early else gpt.apart(weights),
        table=EARLY if early else gpt.TABLE,
        stored={"decoder": size(weights, "pos_emb", 3)} if early else None,
    )


def _is_early(weights: Weights) -> bool:
    return {"tok_emb.weight", "pos_emb", "blocks.0.attn.key.weight"} <= weights.tensors.keys()


def _measured(weights: Weights) -> dict[str, Any]:
    """Return the sizes given by the shapes of the weights of 2020."""
    vocabulary_size, width = size(weights, "tok_emb.weight")
    return {
        "d_model": width,
        "target_vocab": vocabulary_size,
        "max_positions": size(weights, "pos_emb", 3)[1],
        "decoder_layers": layers(weights, "blocks.{n}.ln1.weight"),
        "d_ff": size(weights, "blocks.0.mlp.0.weight")[0],
        "attention_bias": True,
    }


def _heads(config: dict[str, Any], shapes: dict[str, Any]) -> dict[str, int]:
    """Return the heads of the size that ``config.json`` names, if it fits this model."""
    layers, heads, width = SIZES.get(str(_options(config).get("model_type")), (0, 0, 0))
    fits = (layers, width) == (shapes["decoder_layers"], shapes["d_model"])
    return {"heads": heads} if fits else {}


def _activation(config: dict[str, Any], early: bool) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the GELU of a version, and its origin.

    nanoGPT with a separate output has the names of the later version and another GELU. Only
    minGPT's own config beside the weights settles it.
    """
    if early:
        return (("layout", {"activation": "gelu"}),)
    surely = "layout" if "model_type" in _options(config) else "convention"
    return ((surely, {"activation": "gelu_tanh"}),)


def _options(config: dict[str, Any]) -> Mapping[str, Any]:
    """Return the model's part of minGPT's ``config.json``."""
    held = config.get("model")
    return held if isinstance(held, Mapping) else config
