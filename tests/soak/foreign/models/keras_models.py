"""Models of Keras on PyTorch; its own maps are what ``return_attention_scores`` gives."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from ..verdict import Configuration

HEADED: dict[str, Any] = {"num_heads": 4, "key_dim": 8}
GROUPED: dict[str, Any] = {"head_dim": 8, "num_query_heads": 4, "num_key_value_heads": 2}
CAUSAL: dict[str, Any] = {"use_causal_mask": True}
#: By name: layer, its keywords, keywords of its call, whether it asks for the scores.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any], bool]] = {
    "self-attention": ("MultiHeadAttention", HEADED, {}, True),
    "self-attention, causal": ("MultiHeadAttention", HEADED, CAUSAL, True),
    "self-attention, no scores": ("MultiHeadAttention", HEADED, {}, False),
    "self-attention, causal, no scores": ("MultiHeadAttention", HEADED, CAUSAL, False),
    "self-attention, wide values": ("MultiHeadAttention", {**HEADED, "value_dim": 16}, {}, True),
    "grouped keys": ("GroupQueryAttention", GROUPED, {}, True),
    "grouped keys, causal": ("GroupQueryAttention", GROUPED, CAUSAL, True),
    "one head, by dot product": ("Attention", {"use_scale": True}, {}, True),
    "one head, additive": ("AdditiveAttention", {}, {}, True),
}
WORDS, WIDTH, LENGTH = 50, 32, 9


def model(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A functional model of two layers and two lines of token ids."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    keras.utils.set_random_seed(13)
    kind, given, called, asks = MODELS[name]
    ids = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(WORDS, WIDTH)(ids)
    for _ in range(2):
        layer = getattr(keras.layers, kind)(**given)
        pair = {"query": x, "value": x} if "head" in str(given) else {"inputs": [x, x]}
        words = {**called, "return_attention_scores": True} if asks else called
        made = layer(**pair, **words)
        x = keras.layers.LayerNormalization()(x + (made[0] if asks else made))
    return keras.Model(ids, x), (torch.randint(0, WORDS, (2, LENGTH)),)


def own(module: Any, ids: Tensor) -> list[Tensor]:
    """The package's own maps: the second output of each layer."""
    import keras

    scores = [layer.output[1] for layer in module.layers if isinstance(layer.output, list | tuple)]
    maps = keras.Model(module.input, scores)(ids)
    return [x if x.dim() == 4 else x[:, None] for x in maps]


def configurations() -> list[Configuration]:
    """All of them."""
    return [
        Configuration(name, lambda n=name: model(n), 2, own if asks else None)  # type: ignore[misc]
        for name, (*_, asks) in MODELS.items()
    ]
