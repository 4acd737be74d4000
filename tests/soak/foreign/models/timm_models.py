"""Models of timm; its own maps are what its drop-outs of weights get, where it runs them."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from ..absent import stand_in
from ..verdict import Configuration

SMALL: dict[str, Any] = {"num_classes": 5, "embed_dim": 32, "depth": 2, "num_heads": 4}
SMALL |= {"img_size": 32, "patch_size": 8}
STAGES: dict[str, Any] = {"num_classes": 5, "img_size": 64, "embed_dim": 16, "depths": (1, 1)}
STAGES |= {"num_heads": (2, 4), "window_size": 4, "patch_size": 4}
VIT = ("vision_transformer", "VisionTransformer")
RELPOS = ("vision_transformer_relpos", "VisionTransformerRelPos")
SWIN = ("swin_transformer", "SwinTransformer")
SHARED = {"use_abs_pos_emb": False, "use_shared_rel_pos_bias": True}
MEAN = {"global_pool": "avg", "class_token": False}
#: By name: module and class, keywords, attentions, whether it multiplies eagerly.
MODELS: dict[str, tuple[tuple[str, str], dict[str, Any], int, bool]] = {
    "ViT": (VIT, {}, 2, True),
    "ViT, fused": (VIT, {}, 2, False),
    "ViT, norms of q and k": (VIT, {"qk_norm": True}, 2, True),
    "ViT, pooled by attention": (VIT, {**MEAN, "global_pool": "map"}, 3, False),
    "ViT, mean of patches": (VIT, MEAN, 2, True),
    "ViT, registers": (VIT, {"reg_tokens": 3}, 2, True),
    "ViT, scaled layers": (VIT, {"init_values": 0.1}, 2, True),
    "ViT, relative positions": (RELPOS, {}, 2, True),
    "DeiT, two heads": (("deit", "VisionTransformerDistilled"), {}, 2, True),
    "BEiT": (("beit", "Beit"), {}, 2, True),
    "BEiT, shared positions": (("beit", "Beit"), SHARED, 2, True),
    "EVA": (("eva", "Eva"), {"use_rot_pos_emb": True}, 2, True),
    "EVA, fused": (("eva", "Eva"), {"use_rot_pos_emb": True}, 2, False),
    "CaiT": (("cait", "Cait"), {"depth_token_only": 1}, 3, True),
    "XCiT": (("xcit", "Xcit"), {"cls_attn_layers": 1}, 3, True),
    "Swin": (SWIN, STAGES, 2, True),
    "Swin, fused": (SWIN, STAGES, 2, False),
    "Swin 2": (("swin_transformer_v2", "SwinTransformerV2"), STAGES, 2, True),
}
NO_MAPS = ("CaiT", "XCiT")  # what they drop is mixed once more, or is over channels


def model(
    place: tuple[str, str], given: dict[str, Any], eager: bool
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model and two pictures."""
    stand_in()
    from timm.layers import set_fused_attn

    set_fused_attn(not eager)
    keywords = given if "depths" in given else {**SMALL, **given}
    module = getattr(importlib.import_module(f"timm.models.{place[0]}"), place[1])(**keywords)
    for weight in module.parameters():  # norms that start at 0, behind which nothing would show
        if weight.dim() == 1 and not weight.any():
            nn.init.normal_(weight, std=0.1)
    side = keywords["img_size"]
    return module, (torch.randn(2, 3, side, side),)


def own(module: nn.Module, images: Tensor) -> list[Tensor]:
    """What goes through the drop-out of attention weights, in the order in which it runs."""
    maps: list[Tensor] = []
    drops = [part for name, part in module.named_modules() if name.endswith(".attn_drop")]
    hooks = [drop.register_forward_hook(lambda *seen: maps.append(seen[2])) for drop in drops]
    module(images)
    for hook in hooks:
        hook.remove()
    return maps


def configurations() -> list[Configuration]:
    """All of them; where the model runs fused, or gives no maps, the kernels are asked."""
    return [
        Configuration(
            name,
            lambda p=place, g=given, e=eager: model(p, g, e),  # type: ignore[misc]
            count,
            own if eager and name not in NO_MAPS else None,
        )
        for name, (place, given, count, eager) in MODELS.items()
    ]
