"""HookedTransformer of TransformerLens; its own maps are those of its hooks (`hook_pattern`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..absent import stand_in
from ..verdict import Configuration

SMALL: dict[str, Any] = {"n_layers": 2, "d_model": 32, "n_ctx": 16, "d_head": 8, "n_heads": 4}
SMALL |= {"d_vocab": 50, "act_fn": "gelu", "init_weights": True, "device": "cpu"}
ROTARY = {"positional_embedding_type": "rotary", "rotary_dim": 8}
KEYWORDS: dict[str, dict[str, Any]] = {
    "standard": {},
    "shortformer": {"positional_embedding_type": "shortformer"},
    "rotary": ROTARY,
    "rotary, adjacent pairs": {**ROTARY, "rotary_adjacent_pairs": True},
    "ALiBi": {"positional_embedding_type": "alibi"},
    "grouped keys": {**ROTARY, "n_key_value_heads": 2},
    "attention only": {"attn_only": True},
    "without norms": {"normalization_type": None},
    "RMS norm": {"normalization_type": "RMS"},
    "looking both ways": {"attention_dir": "bidirectional"},
    "attention and MLP at once": {"parallel_attn_mlp": True},
    "unscaled scores": {"use_attn_scale": False},
    "scaled by layer": {"scale_attn_by_inverse_layer_idx": True},
    "local layers": {"use_local_attn": True, "window_size": 3, "attn_types": ["global", "local"]},
    "soft cap": {"attn_scores_soft_cap": 5.0},
    "split queries, keys, values": {"use_split_qkv_input": True},
    "heads apart": {"use_attn_result": True},
    "gated MLP": {"gated_mlp": True},
}


def model(keywords: dict[str, Any]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A hooked model of two layers, and two lines of nine tokens."""
    stand_in()
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = HookedTransformerConfig(**{**SMALL, **keywords})
    return HookedTransformer(config), (torch.randint(0, 50, (2, 9)),)


def own(module: Any, ids: Tensor) -> list[Tensor]:
    """The package's own maps."""
    _, cache = module.run_with_cache(ids)
    return [cache["pattern", layer] for layer in range(module.cfg.n_layers)]


def configurations() -> list[Configuration]:
    """All of them."""
    return [
        Configuration(name, lambda given=given: model(given), 2, own)  # type: ignore[misc]
        for name, given in KEYWORDS.items()
    ]
