"""A picture beside the text: what is shown is what the library's whole model does with both.

Folders are random and small; the witnesses are the library's own processors and eager attention.
"""

from __future__ import annotations

import copy
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import transformer_viz as tv
from tests.support.pictured import (
    END,
    IMAGE,
    PICTURED,
    START,
    image_processor_of,
    module_of,
    picture,
    pictured_folder,
    tokenizer_of,
)
from transformer_viz.checkpoints.hugging_face.eyes import eyes_of
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead, Temperature

from .test_parts import folder_of

QUESTION = "what is in the picture ?"
SIZES = {"wide": (40, 31), "tall": (23, 50), "fitting": (24, 24)}
GRIDS = {"llava": (4, 4), "gemma3": (2, 2), "paligemma": (4, 4)}
QWEN_GRIDS = {"wide": (3, 4), "tall": (6, 3), "fitting": (3, 3)}  # by hand: 8 pixels a token


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Any:
    made = {name: pictured_folder(name, tmp_path_factory.mktemp(name)) for name in PICTURED}
    return made.__getitem__


@pytest.fixture(scope="module")
def models(folders) -> Any:
    opened = {name: tv.load(folders(name), device="cpu") for name in PICTURED}
    return opened.__getitem__


def run_by_library(name: str, module: Any, ids: tuple[int, ...], image: Any, **words: Any) -> Any:
    """The library's own pass of the whole model over ids and pixels."""
    given = dict(image_processor_of(name)(images=image, return_tensors="pt"))
    given.pop("num_crops", None)
    given["pixel_values"] = given["pixel_values"].to(module.dtype)
    tokens = torch.tensor([ids])
    names = inspect.signature(module.forward).parameters
    if "mm_token_type_ids" in names:
        given["mm_token_type_ids"] = (tokens == IMAGE).long()
    elif "token_type_ids" in names:
        given["token_type_ids"] = (tokens == IMAGE).long() * (name != "paligemma")
    with torch.no_grad():
        return module(input_ids=tokens, **given, **words)


def test_an_older_library_would_pass_over_a_picture_and_is_refused(folders, monkeypatch):
    """Before transformers 5.18 the words fell into ``**kwargs``: maps of a text without picture."""

    def forward(self: Any, input_ids: Any = None, pixel_values: Any = None, **words: Any) -> None:
        raise AssertionError("It is not run.")

    face = tv.load(folders("llava"), device="cpu").tokenizer
    monkeypatch.setattr(transformers.LlavaForConditionalGeneration, "forward", forward)
    found, why = eyes_of(module_of("llava"), folders("llava"), face)
    assert found is None and why.startswith("Before transformers 5.18 a model cannot be given")


def processor_of(name: str) -> Any:
    """The library's own processor of text and picture together."""
    image, words = image_processor_of(name), tokenizer_of(name)
    if name == "llava":
        return transformers.LlavaProcessor(
            image, words, patch_size=6, vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
        )  # fmt: skip
    if name == "gemma3":
        return transformers.Gemma3Processor(image, words, image_seq_length=4)
    image.image_seq_length = 16
    return transformers.PaliGemmaProcessor(image, words)


def seen(model: tv.Model, text: Any = QUESTION, **words: Any) -> tv.Trace:
    """Return a trace beside the usual picture, without its proof."""
    return tv.trace(model, text, **{"image": picture(), "check": False} | words)


def off_by(run: tv.Trace, other: Any) -> float:
    """Return the largest difference of two traces, or of a trace and the library's own pass."""
    logits = other.logits[0].numpy() if isinstance(other.logits, torch.Tensor) else other.logits
    return float(np.abs(run.logits - logits).max())


@pytest.mark.slow
def test_words_and_patches_stand_on_one_map(folders):
    """In float64: what rounding makes of float32 depends on the processor, and reaches 1e-6."""
    for name in PICTURED:
        model = tv.load(folders(name), device="cpu", dtype="float64")
        module = module_of(name, eager=True).double()
        for size, (wide, tall) in SIZES.items():
            image, case = picture(wide, tall), (name, size)
            run = tv.trace(model, QUESTION, image=image, check=size == "wide")
            theirs = run_by_library(name, module, run.source.ids, image, output_attentions=True)
            own = torch.stack(theirs.attentions)[:, 0].numpy()
            assert run.maps == ("encoder" if name == "paligemma" else "decoder",), case
            ours = run.attention(run.maps[0])
            assert ours.shape == own.shape and np.abs(ours - own).max() <= 1e-6, case
            assert off_by(run, theirs) <= 1e-5, case
            assert size != "wide" or run.report.status == "green", (case, run.report)
            grid, patches = GRIDS.get(name) or QWEN_GRIDS[size], run.patches.ravel()
            assert run.patches.shape == grid, case
            assert {run.source.ids[n] for n in patches} == {IMAGE}, case
            assert run.source.ids.count(IMAGE) == len(patches), case
            labels = [f"image {row},{column}" for row, column in np.ndindex(grid)]
            assert [run.source.labels[n] for n in patches] == labels, case
            assert not any(run.source.special[n] for n in patches), case
            assert len(set(run.source.words)) >= len(patches) + 6, case


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_the_text_is_arranged_as_the_librarys_processor_does(models):
    for name, typed in {
        "llava": "USER: <image> ",
        "gemma3": "<boi>",
        "paligemma": "<image>",
    }.items():
        text = f"{typed}{QUESTION}"
        made = processor_of(name)(images=picture(), text=text, return_tensors="pt")
        ids = seen(models(name), text).source.ids
        assert ids == tuple(made["input_ids"][0].tolist()), name
        assert name == "llava" or seen(models(name)).source.ids == ids, name


def test_a_picture_stands_at_the_beginning_or_at_its_place(models):
    """In a text as in ids, which have one place or all."""
    for name, typed in (
        ("llava", f"<image>\n{QUESTION}"),
        ("qwen2_vl", f"<boi><image><eoi>{QUESTION}"),
    ):
        model = models(name)
        run = seen(model)
        places = (IMAGE,) * run.patches.size
        frame = (START, *places, END) if name == "qwen2_vl" else places
        assert seen(model, typed).source.ids == run.source.ids, name
        first = frame if name == "qwen2_vl" else (1, *places, 8)
        assert run.source.ids[: len(first)] == first, name
        whole = seen(model, [10, 11, IMAGE, 12])
        assert whole.source.ids == (10, 11, *[IMAGE] * whole.patches.size, 12), name
        again = seen(model, whole.source.ids)
        assert again.source.ids == whole.source.ids and off_by(again, whole) == 0, name
        assert seen(model, [1, 10, 11]).source.ids == (1, *frame, 10, 11), name
    run = seen(models("llava"), "the cat <image> is on the mat")
    assert run.patches[0, 0] == 3
    assert run.source.labels[2:4] == ("cat", "image 0,0")
    assert run.source.labels[19:21] == ("is", "on")
    own = run_by_library("llava", module_of("llava"), run.source.ids, picture())
    assert off_by(run, own) <= 1e-5


def test_edits_obey_their_laws(models):
    """Temperature 2 halves the queries, or the norm after them; a head off mixes nothing in."""
    off = ScaleHead(value=0.0, stack="decoder", block="self", layer=1, head=0)
    for name in ("llava", "gemma3", "qwen3_vl"):
        model = models(name)
        run = seen(model)
        cooler, silent = copy.deepcopy(model.module), copy.deepcopy(model.module)
        for part in cooler.model.language_model.modules():
            if not hasattr(getattr(part, "q_proj", None), "weight"):
                continue
            norm = getattr(part, "q_norm", None)
            scale = norm.weight if norm is not None else part.q_proj.weight
            scale.data = (1 + scale.data) / 2 - 1 if name == "gemma3" else scale.data / 2
        silent.model.language_model.layers[1].self_attn.o_proj.weight.data[:, :8] = 0
        for edit, module in ((Temperature(value=2.0), cooler), (off, silent)):
            edited = seen(model, intervention=Intervention((edit,)))
            own = run_by_library(name, module, run.source.ids, picture())
            assert off_by(edited, own) <= 1e-4 and off_by(edited, run) > 1e-3, (name, edit)
    for name in ("llava", "qwen2_vl"):  # padding is appended as beside any text
        run, padded = (
            seen(models(name), intervention=Intervention(edits)) for edits in ((), (Pad(count=3),))
        )
        assert padded.source.ids == (*run.source.ids, 0, 0, 0), name
        assert np.abs(padded.logits[: len(run.logits)] - run.logits).max() <= 1e-5, name


def test_it_writes_what_the_library_writes(models):
    for name in ("llava", "gemma3", "qwen2_vl"):
        model, module = models(name), module_of(name)
        best = tv.translate(model, QUESTION, image=picture(), max_tokens=4)[0]
        ids = list(seen(model).source.ids)
        for token in best.ids:
            own = run_by_library(name, module, tuple(ids), picture()).logits[0, -1]
            assert token == int(own.argmax()), name
            ids.append(token)
        assert len(tv.translate(model, QUESTION, image=picture(), max_tokens=3, beam=3)) == 3, name
    run = seen(models("llava"), target="a cat")
    assert run.source.pieces[-2:] == ("a", "cat")
    before = int(run.patches[0, 0]) - 1
    assert run.produced.ids[before] == int(run.logits[before].argmax())  # no row predicts a patch
    assert run.produced.ids[-3:-1] == run.source.ids[-2:]


def test_one_picture_in_every_form(models, tmp_path):
    path = tmp_path / "cat.png"
    picture().save(path)
    for name in ("llava", "qwen2_vl"):
        model = models(name)
        plain = seen(model)
        for form in (path, str(path), path.read_bytes(), model.eyes.look(picture())):
            assert off_by(seen(model, image=form), plain) == 0, (name, type(form))
    pixels = image_processor_of("llava")(images=picture(), return_tensors="np")["pixel_values"][0]
    ready = seen(models("llava"), image=pixels.astype(np.float32))
    assert off_by(ready, seen(models("llava"))) <= 1e-5
    # Qwen's pixels are put together again.
    image, qwen = picture(32, 24), models("qwen2_vl")
    shown = qwen.eyes.look(image).shown
    assert shown.shape == (24, 32, 3)
    assert np.abs(shown.astype(int) - np.asarray(image)).max() <= 1
    given = (np.asarray(image, np.float32) / 255 - [0.48, 0.45, 0.4]) / [0.27, 0.26, 0.28]
    floats = np.ascontiguousarray(given.transpose(2, 0, 1), np.float32)
    assert off_by(seen(qwen, image=image), seen(qwen, image=floats)) <= 1e-4


def reworded(folder: Path, file: str, **words: Any) -> Path:
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | words))
    return folder


def test_folders_in_other_words_open(tmp_path):
    """All of CLIP's tokens, a newer processor's config, no vocabulary."""
    folder = pictured_folder("llava", tmp_path / "full")
    reworded(folder, "config.json", vision_feature_select_strategy="full")
    run = tv.trace(tv.load(folder, device="cpu"), QUESTION, image=picture())
    assert run.source.labels[1:3] == ("image class", "image 0,0")
    assert (run.source.special[1], run.source.special[2]) == (True, False)
    assert (run.patches[0, 0], run.report.status) == (2, "green")
    folder = pictured_folder("llava", tmp_path / "newer", vocabulary=False)
    words = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": words}))
    model = tv.load(folder, device="cpu")
    assert model.eyes is not None and model.eyes.look(picture()).grid == (4, 4)
    assert seen(model, "1 10 11 4 12").source.ids == (1, 10, 11, *[IMAGE] * 16, 12)


def test_text_alone_is_as_before_and_a_trace_keeps_its_patches(models, tmp_path):
    model = models("gemma3")
    run = tv.trace(model, QUESTION)
    ids = torch.tensor([run.source.ids])
    with torch.no_grad():
        own = module_of("gemma3", eager=True)(input_ids=ids, output_attentions=True)
    assert off_by(run, own) <= 1e-5
    assert (run.report.status, run.patches) == ("green", None)
    assert "a picture beside it" in model.notes[0]
    run = seen(model)
    run.save(tmp_path / "run.safetensors")
    assert (tv.Trace.load(tmp_path / "run.safetensors").patches == run.patches).all()


# ---- refusals ------------------------------------------------------------------------------------


def test_pictures_and_places_that_cannot_be(models, tmp_path):
    (tmp_path / "odd.png").write_bytes(b"no picture")
    oblong, huge = np.zeros((3, 9, 16), np.float32), Image.new("1", (10_000, 10_000))
    for name, text, image, said in (
        ("llava", QUESTION, tmp_path / "odd.png", r"odd\.png is no picture that can be read"),
        ("qwen2_vl", QUESTION, tmp_path / "none.png", r"There is no picture '.*none\.png'"),
        ("llava", QUESTION, huge, r"has 10,000 x 10,000 pixels; .* are the most"),
        ("qwen2_vl", QUESTION, picture(4000, 2), "too long and thin for this model; cut out"),
        ("qwen2_vl", QUESTION, oblong, r"multiples of 8; got float32 \[3, 9, 16\]"),
        ("llava", QUESTION, oblong, r"must be finite floats \[3, 24, 24\]"),
        ("llava", "<image> a cat", None, "place for a picture, and none came"),
        ("gemma3", "<boi><image> a cat", None, "place for a picture, and none came"),
        ("qwen2_vl", "<boi><image><image><eoi> a cat", None, "place for a picture, and none came"),
        ("llava", "<image> <image>", picture(), "<image> 2 times, and one picture came"),
        ("llava", [IMAGE, IMAGE, 10], picture(), r"2 times 4, the place of a picture"),
        ("llava", [IMAGE] * 8 + [10] + [IMAGE] * 8, picture(), "stand one after the other"),
        ("llava", ("a cat", "a dog"), picture(), "A picture goes beside one text"),
        ("llava", "cat " * 47, picture(), r"has 65 tokens and this model reads at most 64"),
    ):
        with pytest.raises(ValueError, match=said):
            tv.trace(models(name), text, image=image)


@pytest.mark.shipped
def test_models_without_eyes_say_so():
    with pytest.raises(ValueError, match="reads text alone and has no eyes; leave image out"):
        tv.trace(tv.load("en-lm"), "The cat", image=picture())
    with pytest.raises(ValueError, match="leave it out, and give the picture as the source"):
        tv.trace(tv.load("digits"), picture(8, 8), image=picture(8, 8))


@pytest.mark.slow
def test_processors_that_do_not_fit_say_so(tmp_path):
    """Also one that is missing, and pictures of families that are not known."""
    unusable, large = "image processor of this model cannot be used.*", 10**12
    for case, name, words, said in (
        ("scans", "gemma3", {"do_pan_and_scan": True},
         unusable + "do_pan_and_scan makes several pictures"),
        ("cut", "qwen2_vl", {"patch_size": 5},
         unusable + "it cuts patches of 5, 2 by 2 of which are one token"),
        ("huge", "qwen2_vl", {"patch_size": 10**9},
         unusable + "patch_size is a whole number from 1 to"),
        ("sizes", "llava", {"size": "all"}, "preprocessor_config.json cannot be used"),
        ("many", "qwen2_vl", {"size": {"shortest_edge": large, "longest_edge": 10 * large}},
         r"tokens of a picture of 40 x 31 pixels, and 4,096 are"),
    ):  # fmt: skip
        folder = pictured_folder(name, tmp_path / case)
        reworded(folder, "preprocessor_config.json", **words)
        with pytest.raises(ValueError, match=said):
            tv.trace(tv.load(folder, device="cpu"), QUESTION, image=picture())
    folder = pictured_folder("llava", tmp_path / "llava")
    (folder / "preprocessor_config.json").unlink()
    model = tv.load(folder, device="cpu")
    assert "its vision part is not run" in model.notes[0]
    assert tv.trace(model, QUESTION, check=False).source.pieces[-1] == "?"
    with pytest.raises(ValueError, match=r"needs a preprocessor_config\.json beside its weights"):
        tv.trace(model, QUESTION, image=picture())
    model = tv.load(folder_of("llama4", tmp_path), device="cpu")
    with pytest.raises(ValueError, match="picture beside the text of a llama4 model is not known"):
        tv.trace(model, [5, 6, 7], image=picture())
