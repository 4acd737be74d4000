"""jadore801120/attention-is-all-you-need-pytorch until November 2019; many tutorials copied it.

Post-norm without any other norm. Positions count from 1 and are 0 at padding. After each sub-layer
the rows of padding become zero. The feed-forward block is two convolutions of width 1. A query
without visible keys gives NaN.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...model import ModelConfig, Transformer
from ...model.cache import DecoderCache, LayerCache
from ...model.normalization import make_norm
from ...model.transformer import Attention, FeedForward, Stack
from ...preprocessing.tokenizers import Tokenizer
from ..common import native
from ..common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    sidecar,
    special_ids,
    widths,
)
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.provenance import resolve
from ..common.rename_keys import Table, pattern, patterns, size
from ..common.stated import stated
from ..common.word_checks import refuse_unknown
from ..files.reading import Weights
from .jadore import CLOSED, SUBLAYERS, measured, projected, stacked, told

NAME = "jadore_2018"
#: Options that define this version: placement of norms and positions.
FIXED = ("norm", "embedding_norm", "final_norm", "positions")
WORDS = tuple(word for word in native.WORDS if word not in FIXED)
TABLE: Table = (
    *SUBLAYERS,
    ("encoder.src_word_emb.weight", "encoder.embedding.tokens.weight"),
    ("decoder.tgt_word_emb.weight", "decoder.embedding.tokens.weight"),
    ("{stack}.position_enc.weight", "{stack}.places.weight"),
    ("tgt_word_prj.weight", "output.weight"),
)
NAMES = patterns(TABLE)
STATED = ("heads", "activation", "norm_eps", "dropout")
PLACES = tuple(f"{stack}.position_enc.weight" for stack in ("encoder", "decoder"))


class PaddedLayer(nn.Module):
    """Post-norm layer that sets the rows of padding to zero after each sub-layer."""

    def __init__(self, config: ModelConfig, cross: bool):
        super().__init__()
        self.self_attention, self.self_norm = Attention(config), make_norm(config)
        if cross:
            self.cross_attention, self.cross_norm = Attention(config), make_norm(config)
        self.feed_forward, self.feed_forward_norm = FeedForward(config), make_norm(config)

    def forward(
        self,
        x: Tensor,
        kept: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        own, cross = (None, None) if cache is None else (cache.own, cache.cross)
        x = self.self_norm(x + self.self_attention(x, x, mask, kept=own)) * kept
        if memory is not None:
            attended = self.cross_attention(x, memory, memory_mask, kept=cross)
            x = self.cross_norm(x + attended) * kept
        return self.feed_forward_norm(x + self.feed_forward(x)) * kept


class PaddedStack(Stack):
    """Stack whose positions count from 1, and are 0 at padding.

    Ids ``[batch, token]`` become states ``[batch, token, d_model]``.
    """

    def __init__(self, config: ModelConfig, vocabulary: int, layers: int, cross: bool):
        super().__init__(config, vocabulary, 0, cross)
        self.pad_id, self.embedding.positions = config.pad_id, None
        self.places = nn.Embedding(config.max_positions + 1, config.d_model)
        self.layers = nn.ModuleList(PaddedLayer(config, cross) for _ in range(layers))

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        token = x != self.pad_id
        place = torch.arange(1, x.shape[1] + 1, device=x.device) * token
        x, kept = self.embedding(x) + self.places(place), token[..., None]
        if cache is None:
            for layer in self.layers:
                x = layer(x, kept, mask, memory, memory_mask)
            return x
        x, kept = x[:, -mask.shape[2] :], kept[:, -mask.shape[2] :]
        for layer, keys in zip(self.layers, cache.layers, strict=True):
            x = layer(x, kept, mask, memory, memory_mask, keys)
        return x


class PaddedTransformer(Transformer):
    """Reference Transformer with `PaddedStack` stacks."""

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.encoder = PaddedStack(config, config.source_vocab, config.encoder_layers, cross=False)
        self.decoder = PaddedStack(config, config.target_vocab, config.decoder_layers, cross=True)
        self.tie()


def recognise(found: Candidate) -> bool:
    """Return True if the names of the weights are those of this code base before November 2019."""
    return stacked(found) and PLACES[0] in found.weights.tensors


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the model described by settings and shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    weights = _flat(found.weights)
    sizes, rows = measured(weights, "tgt"), projected(weights)
    beside = special_ids(found, tokenizer, sizes) | sidecar(found, WORDS)
    words, origins = resolve(
        overrides,
        ("file", told(weights, "tgt")),
        *stated(found, STATED, sizes, beside, rows=math.gcd(*rows.values())),
        ("shapes", sizes),
        ("shapes", {"max_positions": min(size(weights, name)[0] for name in PLACES) - 1}),
        ("layout", {"norm": "post", "final_norm": False, "pad_id": 0, "bos_id": 2, "eos_id": 3}),
    )
    scaled = words["tied"] in ("output", "all")
    add(words, origins, "layout", {"logit_scale": sizes["d_model"] ** -0.5 if scaled else 1.0})
    if "heads" not in words:
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    add(words, origins, "shapes", widths(words["heads"], rows))
    add(words, origins, "layout", PLAIN)
    return build_reference_model(
        found,
        ReferencePlan(
            NAME,
            words,
            origins,
            TABLE,
            weights=weights,
            tokenizer=tokenizer,
            make=PaddedTransformer,
            closed=CLOSED,
        ),
    )


def _flat(weights: Weights) -> Weights:
    """Return the weights with convolutions of width 1 as matrices."""
    form = pattern("{stack}.layer_stack.{n}.pos_ffn.{which}.weight")
    tensors = {
        name: tensor.squeeze(-1) if form.fullmatch(name) and tensor.dim() == 3 else tensor
        for name, tensor in weights.tensors.items()
    }
    return replace(weights, tensors=tensors)
