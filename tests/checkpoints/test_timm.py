"""Vision Transformers of timm and DeiT: exact, with the origin of each word, or refused."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import transformer_viz as tv
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.files.reading import CheckpointError
from transformer_viz.checkpoints.layouts import timm
from transformer_viz.checkpoints.layouts.vision_transformer import VisionConfig, VisionTransformer
from transformer_viz.checkpoints.loader import discover, layout_of

from .timm import VARIANTS, H, Variant, pictures, save, state

PLAIN = VARIANTS[0]


def saved(folder: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    torch.save(tensors, folder / "weights.pth")
    return folder / "weights.pth"


def test_every_kind_of_file_is_recognised_and_opens(tmp_path):
    for number, variant in enumerate(VARIANTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = save(variant, folder)
        found, words = discover(path, variant.words)
        assert layout_of(found).NAME == "timm", variant.name
        model = tv.load(path, **words)
        assert (model.takes, model.kind) == ("image", "encoder-only"), variant.name
        assert model.gives == ("classes" if variant.classes else "vectors"), variant.name
        assert (model.config["heads"], model.config["encoder_layers"]) == (H, 2), variant.name
        assert model.image.grid == variant.grid, variant.name
        assert len(model.image.prefix) == variant.prefix, variant.name
        assert set(model.provenance) == set(model.config) == set(timm.WORDS), variant.name
        names = {"checkpoint": "checkpoint-3", "folder": folder.name}
        assert model.name == names.get(variant.kind, "weights"), variant.name


def vision(width: int, heads: int, **sizes: Any) -> VisionTransformer:
    """Return a small module: 4 pixels in patches of 2 unless ``sizes`` say otherwise."""
    small = {"d_ff": 3, "encoder_layers": 1, "image_size": (4, 4), "patch_size": (2, 2)}
    return VisionTransformer(VisionConfig(d_model=width, heads=heads, **small | sizes))


def test_batches_do_not_mix():
    module = vision(21, 3, d_ff=17, encoder_layers=2, image_size=(12, 12), patch_size=(3, 3))
    both = pictures(PLAIN)
    assert torch.allclose(module(both)[1], module(both[1:])[0], atol=1e-6)


def named(width: int, heads: int) -> dict[str, torch.Tensor]:
    return vision(width, heads).state_dict()


def test_each_word_is_taken_from_its_surest_source(tmp_path):
    args = {"architecture": "vit_tiny_patch16_224", "model_args": {"num_heads": 7}}
    qk = state(next(v for v in VARIANTS if v.qk_norm))
    cfg = {"mean": [0.4] * 3, "std": [0.2] * 3, "crop_pct": 1.0}
    squash = {"pretrained_cfg": {"crop_mode": "squash", "crop_pct": 0.95}}
    deit = {"architecture": "deit_tiny_patch16_224"}
    plus = {"architecture": "vit_huge_plus_patch16_dinov3"}  # 20 heads, where plain huge has 16
    sized = [
        ("heads", named(width, heads), {"architecture": f"vit_{size}_patch16_224"}, {},
         (heads, "sidecar"))
        for size, heads, width in (("tiny", 3, 192), ("small", 6, 384), ("base", 12, 768))
    ]  # fmt: skip
    for word, tensors, config, overrides, expected in (
        ("heads", None, args, {"heads": 3}, (3, "override")),
        ("heads", None, args, {}, (7, "sidecar")),
        ("heads", qk, {}, {}, (3, "shapes")),
        ("heads", None, {}, {}, (7, "convention")),
        ("heads", named(1280, 20), plus, {}, (20, "convention")),
        *sized,
        ("mean", None, {"pretrained_cfg": cfg}, {}, ((0.4, 0.4, 0.4), "sidecar")),
        ("crop", None, {"pretrained_cfg": cfg}, {}, (1.0, "sidecar")),
        ("mean", None, deit, {}, ((0.485, 0.456, 0.406), "convention")),
        ("squeezed", None, squash, {}, (True, "sidecar")),
        ("crop", None, squash, {}, (0.95, "sidecar")),
        ("mean", None, {}, {"mean": 0.25}, ((0.25,), "override")),
    ):
        path = saved(tmp_path, tensors or state(PLAIN), **config)
        model = timm.open(Candidate(path, config), None, overrides)
        assert (model.config[word], model.provenance[word]) == expected, (word, config, overrides)


def test_a_training_checkpoint_states_heads_in_its_arguments(tmp_path):
    path = tmp_path / "last.pth.tar"
    args = argparse.Namespace(
        model="vit_large_patch16_224", model_kwargs=None, img_size=4, interpolation=""
    )
    torch.save({"state_dict": named(1024, 16), "arch": args.model, "args": args}, path)
    model = tv.load(path)
    assert (model.config["heads"], model.provenance["heads"]) == (16, "file")
    assert (model.config["image_size"], model.provenance["image_size"]) == ((4, 4), "file")


def test_a_guess_is_marked_as_one(tmp_path):
    path = saved(tmp_path, state(PLAIN))
    model = timm.open(Candidate(path, {}), None, {})
    assert set(model.guesses) == {"heads", "image_size", "mean", "std", "interpolation", "crop"}
    assert model.notes == ("heads=7 is a guess, the usual choice: nothing in the file says it.",)
    assert timm.open(Candidate(path, {}), None, {"heads": 3, "crop": None}).notes == ()


def test_a_folder_names_its_classes_and_says_how_it_saw_pictures(tmp_path):
    names = [f"kind {n}" for n in range(PLAIN.classes)]
    cfg = {"mean": [0.5], "std": [0.25], "input_size": [3, 12, 12], "crop_pct": 1.0}
    config = {"architecture": "vit_x", "num_classes": 11, "pretrained_cfg": cfg}
    config |= {"label_names": names, "title": "Kinds", "model_args": {"num_heads": H}}
    model = tv.load(saved(tmp_path, state(PLAIN), **config))
    assert model.labels == tuple(names) and model.title == "Kinds" and model.notes == ()
    assert model.provenance["image_size"] == "sidecar" and model.guesses == ("interpolation",)
    short = tv.load(saved(tmp_path, state(PLAIN), **(config | {"label_names": names[1:]})))
    assert short.labels == ()
    border = config | {"pretrained_cfg": cfg | {"crop_mode": "border"}}
    assert "'border'" in tv.load(saved(tmp_path, state(PLAIN), **border)).notes[0]


def test_a_trace_over_a_picture_names_patches_and_asks_about_a_class(tmp_path):
    model = tv.load(save(PLAIN, tmp_path), heads=H)
    picture = Image.fromarray(np.random.default_rng(3).integers(0, 256, (40, 30, 3), np.uint8))
    trace = tv.trace(model, picture, keep=("weights", "gradients"))
    assert trace.report.status == "green" and trace.maps == ("encoder",)
    assert trace.attention("encoder").shape == (2, H, 17, 17)
    assert trace.source.labels[:3] == ("class", "0,0", "0,1")
    assert trace.manifest["image"] == {"grid": [4, 4], "prefix": 1}
    given = torch.from_numpy(model.image.pixels(picture))[None]
    with torch.inference_mode():
        logits = model.module(given)[0]
    assert np.abs(trace.logits - logits.numpy()).max() <= 2e-5
    assert trace.produced.ids == (int(logits.argmax()),)
    # The class token alone is classified: in the last layer no other row has any part in it.
    last = trace.gradients("encoder", layer=1)
    assert np.abs(last[:, 0]).min() > 0 and not last[:, 1:].any()
    assert trace.positions["table.encoder"].shape == (17, 21)


#: What is changed in a file (None leaves a weight out), the overrides, and what the error says.
REFUSED = [
    ({}, {"head": 3}, "no word 'head'.*heads"),
    ({}, {"heads": 4}, "width of 21 cannot be shared by 4 heads"),
    ({}, {"heads": True}, "heads needs a whole number"),
    ({}, {"heads": 0}, "positive whole numbers"),
    ({}, {"classes": 5}, r"head.weight is \[11, 21\]"),
    ({}, {"encoder_layers": 3}, "lacks the weight blocks.2"),
    ({}, {"encoder_layers": 10**7}, "asks for 10000000 layers"),
    ({}, {"registers": 10**12}, "asks for registers 1000000000000, but no weight"),
    ({}, {"image_size": 24}, "pos_embed is"),
    ({}, {"image_size": (2, 2)}, "has no patch"),
    ({}, {"image_size": "12"}, "image_size needs a whole number, or two"),
    ({"patch_embed.proj.weight": torch.zeros(21, 3, 0, 0)}, {}, r"\[21, 3, 0, 0\]; expected"),
    ({}, {"image_size": (10**9, 10**9)}, "beyond what can be drawn"),
    ({}, {"pool": "map"}, "pool 'map' is not supported"),
    ({}, {"activation": "mish"}, "activation 'mish'"),
    ({}, {"interpolation": "cubic"}, "no interpolation 'cubic'"),
    ({}, {"mean": (0.5, 0.5)}, "mean needs one number"),
    ({}, {"mean": "grey"}, "mean needs"),
    ({"cls_token": None}, {"pool": "token", "image_size": 12}, "needs a class token"),
    ({"pos_embed": torch.zeros(1, 13, 21)}, {}, "13 positions, which fit no square"),
    ({"blocks.0.attn.qkv.bias": None}, {}, "lacks the weight blocks.0.attn.qkv.bias"),
    ({}, {"crop": "wide"}, "crop needs a number; got 'wide'"),
    ({}, {"std": ["x"]}, r"std needs a number, or one for each channel; got \('x',\)"),
    ({}, {"squeezed": 1}, "squeezed needs true or false"),
    ({"blocks.1.mlp.fc2.bias": None}, {}, "lacks the weight blocks.1.mlp.fc2.bias"),
    ({"blocks.1.extra": torch.zeros(2)}, {}, "blocks.1.extra that this model does not know"),
    ({"patch_embed.proj.weight": torch.zeros(21, 27)}, {}, r"\[21, 27\]; expected"),
    ({"head.bias": torch.full((11,), float("nan"))}, {}, "head.bias.*NaN"),
]


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    for change, overrides, said in REFUSED:
        held = {name: t for name, t in (state(PLAIN) | change).items() if t is not None}
        with pytest.raises(CheckpointError, match=said):
            timm.open(Candidate(saved(tmp_path, held), {}), None, overrides)
    v = Variant("", size=(9, 9), registers=4, unplaced=True)  # 9 patches, or 4 after 5 tokens
    path = saved(tmp_path, state(v))
    with pytest.raises(CheckpointError, match=r"fit 9 patches as well as 4.*image_size="):
        timm.open(Candidate(path, {}), None, {})
    assert timm.open(Candidate(path, {}), None, {"image_size": 9}).config["no_embed_class"] is True
    model, given = tv.load(save(PLAIN, tmp_path), heads=H), pictures(PLAIN)
    seen = torch.ones(2, 17, dtype=torch.bool)
    with pytest.raises(ValueError, match="neither target nor padding"):
        model.calls.forward(given, None, seen)
    with pytest.raises(ValueError, match="neither target nor padding"):
        model.calls.encode(given, seen)
    assert model.calls.encode(given).shape == (2, 17, 21)
