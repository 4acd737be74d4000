"""Files as timm and DeiT save Vision Transformers, and what their code computes from them."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.layouts import timm

from .drawn import Attended, drawn, opened, row
from .rows import Row
from .witness import State, attend, layer_norm, linear

D, H, F, DEPTH, CLASSES = 21, 3, 17, 2, 11
SEEN_BY_ALL = torch.zeros(1, 1, 1, dtype=torch.bool)


@dataclass(frozen=True)
class Variant:
    """One kind of file: what its model has, and how it is saved."""

    name: str
    kind: str = "bare"  # bare, deit, checkpoint, folder
    size: tuple[int, int] = (12, 12)
    patch: tuple[int, int] = (3, 3)
    class_token: bool = True
    distilled: bool = False
    registers: int = 0
    unplaced: bool = False
    qk_norm: bool = False
    scale: bool = False
    pre: bool = False
    average: bool = False
    qkv_bias: bool = True
    classes: int = CLASSES
    quick: bool = False
    eps: float = 1e-6
    config: dict[str, Any] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)

    @property
    def grid(self) -> tuple[int, int]:
        return self.size[0] // self.patch[0], self.size[1] // self.patch[1]

    @property
    def prefix(self) -> int:
        return self.class_token + self.distilled + self.registers


HEADS = {"heads": H}
MODEL_ARGS = {"num_heads": H, "img_size": 12}
CLIP = {"architecture": "vit_base_patch3_clip_quickgelu_12",
        "model_args": MODEL_ARGS | {"pre_norm": True}}  # fmt: skip
PLACED = {"model_args": MODEL_ARGS | {"no_embed_class": True, "init_values": 0.1}}
VARIANTS = (
    Variant("bare weights; class token", words=HEADS),
    Variant("DeiT, under 'model'", kind="deit", words=HEADS),
    Variant("DeiT, distilled", kind="deit", distilled=True, words=HEADS),
    Variant("training checkpoint; registers", kind="checkpoint", registers=2),
    Variant("folder; positions of the patches alone, LayerScale", kind="folder", registers=1,
            unplaced=True, scale=True, config=PLACED),
    Variant("folder; norms on queries and keys", kind="folder", qk_norm=True),
    Variant("folder; mean of the patches", kind="folder", average=True,
            config={"model_args": MODEL_ARGS | {"global_pool": "avg"}}),
    Variant("bare weights; no class token", class_token=False, average=True, words=HEADS),
    Variant("folder of CLIP; norm before, quick gelu", kind="folder", pre=True, quick=True,
            eps=1e-5, config=CLIP),
    Variant("bare weights; oblong patches, an edge left over, no bias of q, k, v", size=(13, 11),
            patch=(3, 2), qkv_bias=False, words=HEADS | {"image_size": [13, 11]}),
    Variant("bare weights; no classifier, states", classes=0, words=HEADS),
)  # fmt: skip


def state(v: Variant) -> dict[str, Tensor]:
    """A state dict with timm's names."""
    tokens = math.prod(v.grid) + (0 if v.unplaced else v.prefix)
    last = "fc_norm" if v.average else "norm"
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, D), "dist_token": (1, 1, D), "reg_token": (1, v.registers, D),
        "pos_embed": (1, tokens, D),
    }  # fmt: skip
    parts: dict[str, tuple[int, ...]] = {
        "patch_embed.proj": (D, 3, *v.patch), "norm_pre": (D,), last: (D,),
        "head": (v.classes, D), "head_dist": (v.classes, D),
    }  # fmt: skip
    for n in range(DEPTH):
        inner = {
            "norm1": (D,), "attn.qkv": (3 * D, D), "attn.q_norm": (D // H,),
            "attn.k_norm": (D // H,), "attn.proj": (D, D), "norm2": (D,), "mlp.fc1": (F, D),
            "mlp.fc2": (D, F),
        }  # fmt: skip
        parts |= {f"blocks.{n}.{name}": shape for name, shape in inner.items()}
        shapes |= {f"blocks.{n}.ls{place}.gamma": (D,) for place in (1, 2)}
    for name, shape in parts.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    absent = {
        "cls_token": not v.class_token,
        "dist": not v.distilled,
        "reg_token": not v.registers,
        "norm_pre": not v.pre,
        "patch_embed.proj.bias": v.pre,
        "head": not v.classes,
        "q_norm": not v.qk_norm,
        "k_norm": not v.qk_norm,
        "qkv.bias": not v.qkv_bias,
        "gamma": not v.scale,
    }
    gone = [part for part, true in absent.items() if true]
    return drawn({k: s for k, s in shapes.items() if not any(g in k for g in gone)}, "norm")


def save(v: Variant, folder: Path) -> Path:
    """The file of a variant, in its container."""
    held = state(v)
    if v.kind == "folder":
        (folder / "config.json").write_text(
            json.dumps({"architecture": "vit_own_patch3_12", "num_classes": v.classes, **v.config})
        )
        path = folder / "model.safetensors"
        safetensors.torch.save_file(held, path)
        return path
    if v.kind == "checkpoint":
        args = argparse.Namespace(
            model="vit_own_patch3_12", img_size=12, num_classes=None, gp=None, mean=None, std=None,
            crop_pct=None, model_kwargs={"num_heads": H, "reg_tokens": v.registers},
        )  # fmt: skip
        more = {"epoch": 3, "arch": args.model, "optimizer": {}, "version": 2, "args": args}
        path = folder / "checkpoint-3.pth.tar"
        torch.save({**more, "state_dict": held, "metric": 0.5}, path)
        return path
    path = folder / "weights.pth"
    torch.save({"model": held} if v.kind == "deit" else held, path)
    return path


def witness(w: State, pictures: Tensor, v: Variant) -> Attended:
    """Attention of every layer, and logits or states: in float64, patch by patch."""
    (rows, columns), (tall, wide) = v.grid, v.patch
    kernel = w["patch_embed.proj.weight"].double().reshape(D, -1)
    bias = w.get("patch_embed.proj.bias", torch.zeros(D)).double()
    patches = [
        pictures[:, :, r * tall : (r + 1) * tall, c * wide : (c + 1) * wide].double().flatten(1)
        for r in range(rows)
        for c in range(columns)
    ]
    x = torch.stack([patch @ kernel.T + bias for patch in patches], dim=1)
    places = w["pos_embed"].double()
    front = [w[n].double() for n in ("cls_token", "dist_token", "reg_token") if n in w]
    if v.unplaced:
        x = x + places
    x = torch.cat([*(token.repeat(len(x), 1, 1) for token in front), x], dim=1)
    if not v.unplaced:
        x = x + places
    if v.pre:
        x = _norm(x, w, "norm_pre", v.eps)
    maps = []
    for n in range(DEPTH):
        at = f"blocks.{n}"
        q, k, values = linear(_norm(x, w, f"{at}.norm1", v.eps), w, f"{at}.attn.qkv").chunk(3, -1)
        if v.qk_norm:
            q, k = (
                torch.cat([_norm(h, w, f"{at}.attn.{name}", v.eps) for h in part.chunk(H, -1)], -1)
                for name, part in (("q_norm", q), ("k_norm", k))
            )
        mixed, weights = attend(q, k, values, H, SEEN_BY_ALL, -math.inf)
        maps.append(weights)
        scales = [w.get(f"{at}.ls{place}.gamma", torch.ones(D)).double() for place in (1, 2)]
        x = x + linear(mixed, w, f"{at}.attn.proj") * scales[0]
        y = linear(_norm(x, w, f"{at}.norm2", v.eps), w, f"{at}.mlp.fc1")
        y = y * torch.sigmoid(1.702 * y) if v.quick else y * (1 + torch.erf(y / math.sqrt(2))) / 2
        x = x + linear(y, w, f"{at}.mlp.fc2") * scales[1]
    if v.average:
        pooled = sum(x[:, t] for t in range(v.prefix, x.shape[1])) / (x.shape[1] - v.prefix)
        return maps, linear(_norm(pooled, w, "fc_norm", v.eps), w, "head")
    x = _norm(x, w, "norm", v.eps)
    if not v.classes:
        return maps, x
    logits = linear(x[:, 0], w, "head")
    return maps, (logits + linear(x[:, 1], w, "head_dist")) / 2 if v.distilled else logits


def _norm(x: Tensor, w: State, name: str, eps: float) -> Tensor:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)


def model_of(v: Variant, folder: Path) -> Model:
    """The variant as a visitor's file is opened."""
    return opened(timm, save(v, folder), **v.words)


def pictures(v: Variant) -> Tensor:
    """Two pictures as a model reads them."""
    return torch.randn(2, 3, *v.size, generator=torch.Generator().manual_seed(5))


@cache
def rows() -> list[Row]:
    """Every variant, over two pictures."""
    found = []
    for v in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            model, given = model_of(v, Path(folder)), pictures(v)
            found.append(row(timm.NAME, v.name, model, (given,), witness(state(v), given, v)))
    return found
