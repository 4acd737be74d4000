"""One tiny model of each kind in a folder: a shelf on which only translation is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from tests.conftest import make_module, ramp
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.checkpoints.layouts.vision_transformer import VisionConfig, VisionTransformer
from transformer_viz.preprocessing.tokenizers import SentencePieceText

MASK = "<mask>"
NAMES = ("lm", "mlm", "vit", "core", "ids")
LABELS = ("zero", "one", "two", "three", "four")
PICTURE = VisionConfig(
    d_model=22,
    heads=2,
    encoder_layers=3,
    d_ff=29,
    image_size=(6, 9),
    patch_size=(3, 3),
    channels=1,
    classes=len(LABELS),
)


def write_kinds(folder: Path, make_vocabulary: Callable[..., bytes]) -> Path:
    """Write every kind of model into the folder, each under its name of `NAMES`."""
    plain, masked = make_vocabulary(), make_vocabulary(control_symbols=[MASK])
    words = len(SentencePieceText(plain).pieces)
    decoder = {"encoder_layers": 0, "source_vocab": 0}
    both = {"source_vocab": words, "target_vocab": words}
    _native(folder / "lm", make_module(**decoder, target_vocab=words), plain)
    pieces = list(SentencePieceText(masked).pieces)
    encoder = make_module(decoder_layers=0, **both)
    _native(folder / "mlm", encoder, masked, mask_id=pieces.index(MASK))
    _native(folder / "core", make_module(decoder_layers=0, source_vocab=0, target_vocab=0))
    _native(folder / "ids", make_module(**decoder))
    _vit(folder / "vit")
    return folder


def _native(folder: Path, module: Any, vocabulary: bytes = b"", **notes: Any) -> None:
    _save(folder, module, {"layout": "transformer_viz"} | module.config.to_dict() | notes)
    if vocabulary:
        (folder / VOCABULARY).write_bytes(vocabulary)


def _vit(folder: Path) -> None:
    module = VisionTransformer(PICTURE)
    ramp(module)
    config = {
        "architecture": "vit_tiny_patch3",
        "num_classes": len(LABELS),
        "model_args": {"img_size": [6, 9], "patch_size": 3, "in_chans": 1, "num_heads": 2},
        "pretrained_cfg": {"mean": [0.5], "std": [0.5], "input_size": [1, 6, 9]},
        "label_names": list(LABELS),
        "title": "Five kinds of noise",
        "examples": ["left.png", "right.png"],
    }
    _save(folder, module, config)
    (folder / "examples").mkdir()
    for seed, name in enumerate(config["examples"]):
        noise = np.random.default_rng(seed).integers(0, 256, (6, 9), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "examples" / name)


def _save(folder: Path, module: nn.Module, config: dict[str, Any]) -> None:
    folder.mkdir()
    save_file(module.state_dict(), folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
