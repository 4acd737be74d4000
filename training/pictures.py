"""Bundled folder of the digits: config.json in timm's format, example images, card texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from transformer_viz.checkpoints.common.bundled import CONFIG
from transformer_viz.checkpoints.common.model import Model

from .digits import HELD_OUT, NAMES, Digits, read_digits
from .write_file import write

FOLDER = "examples"
SHOWN = (
    "Each image was moved by up to one pixel either way, with a little noise on its pixels, anew "
    "each time."
)
HELD = (
    "on the last three of the 14 sheets in the data, which were not trained on: every sheet has "
    "the same order of digits, as if one hand each had filled it in, so this is about other hands "
    "than those it learned from (but 13 people filled the 14 sheets, so that one hand may stand in "
    "both)."
)
INTRODUCED = (
    "The first image of each digit on the held-out sheets, and the held-out image whose digit the "
    "model finds least probable:\n\n"
)


def timm_config(task: Digits) -> dict[str, Any]:
    """Return the fields of config.json, as timm names them on the Hugging Face hub."""
    config = task.config
    return {
        "architecture": "vit_digits_patch2_8",
        "num_classes": config.classes,
        "num_features": config.d_model,
        "global_pool": config.pool,
        "model_args": {
            "img_size": list(config.image_size),
            "patch_size": list(config.patch_size),
            "in_chans": config.channels,
            "embed_dim": config.d_model,
            "depth": config.encoder_layers,
            "num_heads": config.heads,
            "mlp_ratio": config.d_ff / config.d_model,
        },
        "pretrained_cfg": {
            "input_size": [config.channels, *config.image_size],
            "mean": [task.mean],
            "std": [task.std],
            "interpolation": "box",
            "crop_pct": 1.0,
            "num_classes": config.classes,
        },
        "label_names": list(NAMES),
    }


def chances(model: Model, images: np.ndarray) -> np.ndarray:
    """Return the probability of each class, ``[image, class]``, of grey images.

    ``images`` are uint8 ``[image, row, column]``, 0 paper and 255 ink.
    """
    assert model.image is not None
    pixels = np.stack([model.image.pixels(Image.fromarray(image)) for image in images])
    with torch.inference_mode():
        logits = model.calls.forward(torch.from_numpy(pixels).to(model.device))
    return logits.softmax(-1).cpu().numpy()


def store_pictures(model: Model, out: Path) -> list[Path]:
    """Write a held-out image of each digit and a hard one as PNG, and list them in config.json."""
    images, labels = (part[HELD_OUT:] for part in read_digits())
    hardest = int(chances(model, images)[np.arange(len(labels)), labels].argmin())
    chosen = {name: int(np.flatnonzero(labels == digit)[0]) for digit, name in enumerate(NAMES)}
    chosen[f"hard-{NAMES[labels[hardest]]}"] = hardest
    (out / FOLDER).mkdir(exist_ok=True)
    paths = [out / FOLDER / f"{name}.png" for name in chosen]
    for path, index in zip(paths, chosen.values(), strict=True):
        Image.fromarray(images[index]).save(path)
    words = json.loads((out / CONFIG).read_text(encoding="utf-8"))
    words["examples"] = [path.name for path in paths]
    write(out / CONFIG, (json.dumps(words, indent=2) + "\n").encode())
    return paths


def shape(model: Model) -> list[tuple[str, str]]:
    """Return kind, layers, heads, width, image and classes, for the card."""
    config, image = model.config, model.image
    assert image is not None
    rows, columns = image.grid
    return [
        ("kind", "Vision Transformer, encoder-only, pre-norm, learned positions"),
        ("layers", f"{config['encoder_layers']} encoder"),
        ("heads", f"{config['heads']} of width {config['d_model'] // config['heads']}"),
        ("width", f"{config['d_model']}, feed-forward {config['d_ff']}"),
        (
            "image",
            f"{image.height} x {image.width} pixels, grey, white ink on black; {rows} x {columns} "
            f"patches of {image.patch[0]} x {image.patch[1]}, and a class token",
        ),
        ("classes", ", ".join(model.labels)),
    ]


def answers(model: Model) -> list[tuple[str, str]]:
    """Return the predicted class and its probability for each image of the folder."""
    assert model.folder is not None
    words = json.loads((model.folder / CONFIG).read_text(encoding="utf-8"))
    paths = [model.folder / FOLDER / name for name in words["examples"]]
    found = chances(model, np.stack([np.asarray(Image.open(path)) for path in paths]))
    return [
        (f"`{FOLDER}/{path.name}`", f"{model.labels[row.argmax()]} {row.max():.0%}")
        for path, row in zip(paths, found, strict=True)
    ]
