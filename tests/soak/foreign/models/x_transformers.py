"""Decoders and encoders of x-transformers; its own maps are what ``return_attn`` gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..verdict import Configuration

KEYWORDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "ALiBi": {"alibi_pos_bias": True},
    "T5 bias": {"rel_pos_bias": True},
    "grouped keys": {"attn_kv_heads": 2},
    "one key head": {"attn_one_kv_head": True},
    "qk-norm": {"attn_qk_norm": True},
    "talking heads": {"attn_pre_talking_heads": True},
    "sparse top-k": {"attn_sparse_topk": 4},
    "memory keys": {"attn_num_mem_kv": 3},
    "softclamp": {"attn_logit_softclamp_value": 20.0, "attn_softclamp_logits": True},
    "residual attention": {"residual_attn": True},
    "macaron": {"macaron": True},
    "shifted tokens": {"shift_tokens": 1},
    "head scale": {"attn_head_scale": True},
    "gated values": {"attn_gate_values": True},
    "flash": {"attn_flash": True},
    "RMS norm": {"use_rmsnorm": True},
}


def model(layers: str, keywords: dict[str, Any]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A language model of two layers and four heads, and two lines of nine tokens."""
    import x_transformers as package

    stack = getattr(package, layers)(dim=32, depth=2, heads=4, attn_dim_head=8, **keywords)
    whole = package.TransformerWrapper(num_tokens=50, max_seq_len=16, attn_layers=stack)
    return whole, (torch.randint(0, 50, (2, 9)),)


def own(module: nn.Module, ids: Tensor) -> list[Tensor]:
    """The package's own maps."""
    return list(module(ids, return_attn=True)[1])


def own_eager(layers: str) -> Callable[[nn.Module, Tensor], list[Tensor]]:
    """The package's own maps of the same weights without its fused way, which gives none."""

    def maps(module: nn.Module, ids: Tensor) -> list[Tensor]:
        eager, _ = model(layers, {})
        eager.load_state_dict(module.state_dict())
        return own(eager.eval(), ids)

    return maps


def configurations() -> list[Configuration]:
    """All of them, as decoder and as encoder."""
    return [
        Configuration(
            f"{layers}, {name}",
            lambda layers=layers, given=given: model(layers, given),  # type: ignore[misc]
            2,
            own_eager(layers) if "attn_flash" in given else own,
            tokens="shift_tokens" not in given,
        )
        for layers in ("Decoder", "Encoder")
        for name, given in KEYWORDS.items()
    ]
