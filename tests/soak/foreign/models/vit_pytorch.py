"""Vision transformers of vit-pytorch; the oracle is the kernels."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from ..absent import stand_in
from ..verdict import Configuration

SMALL: dict[str, Any] = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32}
DEEP: dict[str, Any] = {"depth": 2, "heads": 4, "mlp_dim": 32}
#: Module, class, keywords, and how many attentions it has.
MODELS: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("vit", "ViT", {**SMALL, **DEEP}, 2),
    ("simple_vit", "SimpleViT", {**SMALL, **DEEP}, 2),
    ("simple_flash_attn_vit", "SimpleViT", {**SMALL, **DEEP, "use_flash": True}, 2),
    ("simple_vit_with_qk_norm", "SimpleViT", {**SMALL, **DEEP}, 2),
    ("vit_for_small_dataset", "ViT", {**SMALL, **DEEP}, 2),
    ("parallel_vit", "ViT", {**SMALL, **DEEP}, 4),
    ("deepvit", "DeepViT", {**SMALL, **DEEP}, 2),
    ("cait", "CaiT", {**SMALL, **DEEP, "cls_depth": 1}, 3),
)


def model(place: str, kind: str, given: dict[str, Any]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small model and two pictures."""
    stand_in()
    module = getattr(importlib.import_module(f"vit_pytorch.{place}"), kind)(**given)
    return module, (torch.randn(2, 3, 32, 32),)


def configurations() -> list[Configuration]:
    """All of them."""
    return [
        Configuration(place, lambda p=place, k=kind, g=given: model(p, k, g), count)  # type: ignore[misc]
        for place, kind, given, count in MODELS
    ]
