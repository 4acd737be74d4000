"""CLIP and SigLIP with a picture and captions, against the library's own whole model.

Folders are random and small; image processors and tokenizers are made in memory.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers

import transformer_viz as tv
from tests.support.pictured import CROPPED, SQUARE, picture
from transformer_viz.checkpoints import CheckpointError

from .hugging_face import made, saved
from .test_parts import folder_of

WORDS = ("<pad>", "<s>", "</s>", "<unk>", "a", "cat", "dog", "on", "the", "mat", "two", "rain")
CAPTIONS = ("a cat", "a dog on the mat", "two cat on the mat")
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4}  # fmt: skip
TEXT = SIZES | {"vocab_size": 12, "max_position_embeddings": 11, "pad_token_id": 0,
                "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
EYES = SIZES | {"image_size": 24, "patch_size": 6}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "clip": ("CLIP", {"text_config": TEXT | {"projection_dim": 16}, "vision_config": EYES,
                      "projection_dim": 16}, CROPPED),
    "siglip": ("Siglip", {"text_config": TEXT | {"projection_size": 32}, "vision_config": EYES},
               SQUARE),
}  # fmt: skip


def tokenizer_of(name: str) -> Any:
    words = tokenizers.models.WordLevel(dict(zip(WORDS, range(len(WORDS)), strict=True)), "<unk>")
    own = tokenizers.Tokenizer(words)
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    single = "<s> $A </s>" if name == "clip" else "$A </s>"
    own.post_processor = tokenizers.processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>",
    )  # fmt: skip


def processor_of(name: str) -> Any:
    kind, _, words = CASES[name]
    return getattr(transformers, f"{kind}ImageProcessorPil")(**words)


def whole_folder(name: str, folder: Path) -> Path:
    kind, words, pictures = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved(made(f"{kind}Model", f"{kind}Config", **words), folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": f"{kind}ImageProcessor"} | pictures)
    )
    tokenizer_of(name).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    found = {name: whole_folder(name, tmp_path_factory.mktemp(name)) for name in CASES}
    return found.__getitem__


def run_by_library(name: str, folder: Path, captions: tuple[str, ...]) -> Any:
    """The library's own whole model, all captions in one batch, as its documentation runs it."""
    kind = CASES[name][0]
    cls = getattr(transformers, f"{kind}Model")
    module = cls.from_pretrained(folder, attn_implementation="eager").eval()
    way = {"padding": True} if name == "clip" else {"padding": "max_length", "max_length": 11}
    text = tokenizer_of(name)(list(captions), return_tensors="pt", **way)
    text.pop("token_type_ids", None)
    if name == "siglip":
        text.pop("attention_mask")
    pixels = processor_of(name)(images=picture(), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        return module(**text, pixel_values=pixels, output_attentions=True)


@pytest.mark.slow
def test_probabilities_and_maps_are_the_models_own(folders):
    for name in CASES:
        model = tv.load(folders(name), device="cpu", part="both")
        found = tv.match(model, CAPTIONS, picture())
        theirs = run_by_library(name, folders(name), CAPTIONS)
        logits = theirs.logits_per_image[0]
        assert np.abs(found.logits - logits.numpy()).max() <= 1e-4, name
        expected = logits.sigmoid() if name == "siglip" else logits.softmax(-1)
        assert np.abs(found.probabilities - expected.numpy()).max() <= 1e-5, name
        assert (found.sigmoid, found.captions) == (name == "siglip", CAPTIONS)
        seen = torch.stack(theirs.vision_model_output.attentions)[:, 0].numpy()
        assert np.abs(found.picture.attention("encoder") - seen).max() <= 1e-6, name
        read = torch.stack(theirs.text_model_output.attentions).numpy()
        for number, run in enumerate(found.texts):
            ours = run.attention(run.maps[0])
            size = ours.shape[-1]
            assert np.abs(ours - read[:, number, :, :size, :size]).max() <= 1e-6, (name, number)
            assert run.report.status == "green", (name, number)
        assert found.picture.report.status == "green"
        assert found.picture.patches.shape == (4, 4)
        lengths = [len(run.source) for run in found.texts]
        assert lengths == ([4, 7, 7] if name == "clip" else [11, 11, 11])
        assert found.texts[0].maps == ("decoder" if name == "clip" else "encoder",)
        # CLIP's captions share one probability, and SigLIP's do not.
        two, one = (tv.match(model, c, picture(), check=False) for c in (CAPTIONS[:2], CAPTIONS[0]))
        assert one.logits[0] == two.logits[0]
        if name == "clip":
            assert abs(two.probabilities.sum() - 1) <= 1e-6 and one.probabilities[0] == 1
        else:
            assert one.probabilities[0] == two.probabilities[0] < 1


def test_one_picture_and_caption_in_every_form(folders, tmp_path):
    model, path = tv.load(folders("clip"), device="cpu", part="both"), tmp_path / "cat.png"
    picture().save(path)
    plain = tv.match(model, "a cat", picture(), check=False).logits
    for captions, image in (
        (["a cat"], path),
        (["a cat"], str(path)),
        ([[1, 4, 5, 2]], picture()),
    ):
        assert tv.match(model, captions, image, check=False).logits == plain, (captions, image)


def test_what_cannot_be_matched(folders, tmp_path):
    model, text = (tv.load(folders("clip"), device="cpu", part=p) for p in ("both", "text_model"))
    for opened, captions, image, said in (
        (model, [], picture(), "Give 1 to 256 captions; got 0"),
        (model, "a cat", None, "compared with a picture, and none came"),
        (model, "a cat", tmp_path / "none.png", "There is no picture"),
        (model, " ".join(["a"] * 11), picture(), "has 13 tokens and this model reads at most 11"),
        (text, "a cat", picture(), r'open such a model with load\(path, part="both"\)'),
    ):
        with pytest.raises(ValueError, match=said):
            tv.match(opened, captions, image)
    with pytest.raises(ValueError, match=r"compare them by tv\.match\(model, captions, image\)"):
        tv.trace(model, "a cat", image=picture())
    with pytest.raises(CheckpointError, match="part=both to compare a picture with captions"):
        tv.load(folders("clip"), device="cpu")
    for name, said in (
        ("blip", "part=both opens the two towers of a CLIP or SigLIP"),
        ("clip", r"Two towers need a preprocessor_config\.json"),
    ):
        with pytest.raises(CheckpointError, match=said):
            tv.load(folder_of(name, tmp_path), device="cpu", part="both")
