"""Models of open_clip; the oracle is the maps of its nn.MultiheadAttention (``need_weights``)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..absent import stand_in
from ..verdict import Configuration

EYE: dict[str, Any] = {"image_size": 32, "patch_size": 8, "width": 32, "layers": 2}
EYE |= {"head_width": 8}
TEXT: dict[str, Any] = {"context_length": 9, "vocab_size": 50, "width": 32, "heads": 4, "layers": 2}
POOLED: dict[str, Any] = {**EYE, "attentional_pool": True, "attn_pooler_queries": 6}
POOLED |= {"attn_pooler_heads": 4}
EMBEDS: dict[str, Any] = {"embed_cls": True, "output_tokens": True}
DECODER: dict[str, Any] = {**TEXT, "context_length": 10}
#: By name: class, settings of the eye and of the text, more keywords, attentions.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], int]] = {
    "CLIP": ("CLIP", EYE, TEXT, {}, 4),
    "CLIP, quick GELU": ("CLIP", EYE, TEXT, {"quick_gelu": True}, 4),
    "CLIP, scaled layers": ("CLIP", {**EYE, "ls_init_value": 0.1}, TEXT, {}, 4),
    "CLIP, mean of patches": ("CLIP", {**EYE, "pool_type": "avg"}, TEXT, {}, 4),
    "CLIP, no causal mask": ("CLIP", EYE, {**TEXT, "no_causal_mask": True}, {}, 4),
    "CLIP, text apart": ("CustomTextCLIP", EYE, TEXT, {}, 4),
    "CLIP, pooled by attention": ("CLIP", POOLED, TEXT, {}, 5),
    "CoCa": ("CoCa", {**POOLED, "output_tokens": True}, {**TEXT, **EMBEDS}, {}, 9),
}


def model(
    kind: str, eye: dict[str, Any], text: dict[str, Any], given: dict[str, Any]
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model; two lines of token ids and two pictures."""
    stand_in()
    import open_clip

    if kind == "CoCa":
        given = {**given, "multimodal_cfg": DECODER}
    module = getattr(open_clip, kind)(embed_dim=32, vision_cfg=eye, text_cfg=text, **given)
    return module, (torch.randint(1, 50, (2, 9)), torch.randn(2, 3, 32, 32))


def run(module: nn.Module, ids: Tensor, images: Tensor) -> Any:
    """Both towers."""
    return module(images, ids)


def own(module: nn.Module, ids: Tensor, images: Tensor) -> list[Tensor]:
    """The maps of each attention, in the order in which they run."""
    maps: list[Tensor] = []

    def ask(part: nn.Module, given: Any, words: dict[str, Any]) -> Any:
        return given, {**words, "need_weights": True, "average_attn_weights": False}

    parts = [part for part in module.modules() if isinstance(part, nn.MultiheadAttention)]
    hooks = [part.register_forward_pre_hook(ask, with_kwargs=True) for part in parts]
    hooks += [part.register_forward_hook(lambda *seen: maps.append(seen[2][1])) for part in parts]
    run(module, ids, images)
    for hook in hooks:
        hook.remove()
    return maps


def configurations() -> list[Configuration]:
    """All of them."""
    return [
        Configuration(name, lambda m=settings: model(*m), count, own, run)  # type: ignore[misc]
        for name, (*settings, count) in MODELS.items()
    ]
