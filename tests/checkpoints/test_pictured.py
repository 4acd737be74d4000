"""A picture beside the text: what is shown is what the library's whole model does with both.

Folders are random and small; the witnesses are the library's own processors and eager attention.
"""

from __future__ import annotations

import inspect
import json
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

QUESTION = "what is in the picture ?"
SIZES = {"wide": (40, 31), "tall": (23, 50), "fitting": (24, 24)}
GRIDS = {"llava": (4, 4), "gemma3": (2, 2), "paligemma": (4, 4)}
QWEN_GRIDS = {"wide": (3, 4), "tall": (6, 3), "fitting": (3, 3)}  # by hand: 8 pixels a token
TYPED = {"llava": "<image>", "gemma3": "<boi>", "qwen2_vl": "<boi><image><eoi>"}


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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PICTURED)
def test_words_and_patches_stand_on_one_map(name, size, folders):
    """In float64: what rounding makes of float32 depends on the processor, and reaches 1e-6."""
    model, image = tv.load(folders(name), device="cpu", dtype="float64"), picture(*SIZES[size])
    run = tv.trace(model, QUESTION, image=image)
    module = module_of(name, eager=True).double()
    theirs = run_by_library(name, module, run.source.ids, image, output_attentions=True)
    own = torch.stack(theirs.attentions)[:, 0].numpy()
    assert run.maps == ("encoder" if name == "paligemma" else "decoder",)
    ours = run.attention(run.maps[0])
    assert ours.shape == own.shape
    assert np.abs(ours - own).max() <= 1e-6
    assert np.abs(run.logits - theirs.logits[0].numpy()).max() <= 1e-5
    assert run.report.status == "green", (run.report.broken, run.report.untold, run.report.missed)
    grid = GRIDS.get(name) or QWEN_GRIDS[size]
    assert run.patches.shape == grid
    assert {run.source.ids[n] for n in run.patches.ravel()} == {IMAGE}
    assert run.source.ids.count(IMAGE) == run.patches.size
    labels = [f"image {row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    assert [run.source.labels[n] for n in run.patches.ravel()] == labels
    assert not any(run.source.special[n] for n in run.patches.ravel())
    assert len(set(run.source.words)) >= run.patches.size + 6


@pytest.mark.parametrize("name", ["llava", "gemma3", "paligemma"])
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_the_text_is_arranged_as_the_librarys_processor_does(name, models):
    typed = {"llava": "USER: <image> ", "gemma3": "<boi>", "paligemma": "<image>"}[name]
    text = f"{typed}{QUESTION}"
    made = processor_of(name)(images=picture(), text=text, return_tensors="pt")
    run = tv.trace(models(name), text, image=picture(), check=False)
    assert run.source.ids == tuple(made["input_ids"][0].tolist())
    if name != "llava":
        plain = tv.trace(models(name), QUESTION, image=picture(), check=False)
        assert plain.source.ids == run.source.ids


@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_without_a_place_the_picture_stands_at_the_beginning(name, models):
    run = tv.trace(models(name), QUESTION, image=picture(), check=False)
    typed = {"llava": f"<image>\n{QUESTION}", "qwen2_vl": f"<boi><image><eoi>{QUESTION}"}[name]
    assert tv.trace(models(name), typed, image=picture(), check=False).source.ids == run.source.ids
    count = run.patches.size
    first = {"llava": (1, *[IMAGE] * count, 8), "qwen2_vl": (START, *[IMAGE] * count, END)}[name]
    assert run.source.ids[: len(first)] == first


def test_a_place_in_the_middle_is_kept(models):
    run = tv.trace(models("llava"), "the cat <image> is on the mat", image=picture(), check=False)
    assert run.patches[0, 0] == 3
    assert run.source.labels[2:4] == ("cat", "image 0,0")
    assert run.source.labels[19:21] == ("is", "on")
    own = run_by_library("llava", module_of("llava"), run.source.ids, picture()).logits
    assert np.abs(run.logits - own[0].numpy()).max() <= 1e-5


@pytest.mark.parametrize("name", ["llava", "qwen2_vl"])
def test_ids_have_one_place_or_all(name, models):
    model = models(name)
    whole = tv.trace(model, [10, 11, IMAGE, 12], image=picture(), check=False)
    count = whole.patches.size
    assert whole.source.ids == (10, 11, *[IMAGE] * count, 12)
    again = tv.trace(model, whole.source.ids, image=picture(), check=False)
    assert again.source.ids == whole.source.ids
    assert (again.logits == whole.logits).all()
    ahead = tv.trace(model, [1, 10, 11], image=picture(), check=False)
    frame = (START, *[IMAGE] * count, END) if name == "qwen2_vl" else (IMAGE,) * count
    assert ahead.source.ids == (1, *frame, 10, 11)


def test_all_of_clips_tokens_may_come(tmp_path):
    folder = pictured_folder("llava", tmp_path)
    file = folder / "config.json"
    words = json.loads(file.read_text()) | {"vision_feature_select_strategy": "full"}
    file.write_text(json.dumps(words))
    run = tv.trace(tv.load(folder, device="cpu"), QUESTION, image=picture())
    assert run.source.labels[1:3] == ("image class", "image 0,0")
    assert (run.source.special[1], run.source.special[2]) == (True, False)
    assert run.patches[0, 0] == 2
    assert run.report.status == "green"


@pytest.mark.parametrize("name", ["llava", "gemma3", "qwen3_vl"])
def test_edits_obey_their_laws(name, models):
    import copy

    model = models(name)
    run = tv.trace(model, QUESTION, image=picture(), check=False)
    cooler, silent = copy.deepcopy(model.module), copy.deepcopy(model.module)
    towers = [part for part in cooler.modules() if hasattr(part, "q_proj")]
    mine = [p for p in towers if hasattr(p.q_proj, "weight") and p.q_proj.weight.shape[0] == 32]
    words = [p for p in mine if p in set(cooler.model.language_model.modules())]
    for part in words:  # temperature 2 is queries by half; a norm of queries stands between
        norm = getattr(part, "q_norm", None)
        scale = norm.weight if norm is not None else part.q_proj.weight
        if name == "gemma3":
            scale.data = (1 + scale.data) / 2 - 1
        else:
            scale.data /= 2
    silent.model.language_model.layers[1].self_attn.o_proj.weight.data[:, :8] = 0
    off = ScaleHead(value=0.0, stack="decoder", block="self", layer=1, head=0)
    for edit, module in ((Temperature(value=2.0), cooler), (off, silent)):
        changes = Intervention((edit,))
        edited = tv.trace(model, QUESTION, image=picture(), intervention=changes, check=False)
        own = run_by_library(name, module, run.source.ids, picture()).logits[0].numpy()
        assert np.abs(edited.logits - own).max() <= 1e-4
        assert np.abs(edited.logits - run.logits).max() > 1e-3


def test_padding_is_appended_as_beside_any_text(models):
    changes = Intervention((Pad(count=3),))
    for name in ("llava", "qwen2_vl"):
        run = tv.trace(models(name), QUESTION, image=picture(), check=False)
        padded = tv.trace(
            models(name), QUESTION, image=picture(), intervention=changes, check=False
        )
        assert padded.source.ids == (*run.source.ids, 0, 0, 0)
        assert np.abs(padded.logits[: len(run.logits)] - run.logits).max() <= 1e-5


@pytest.mark.parametrize("name", ["llava", "gemma3", "qwen2_vl"])
def test_it_writes_what_the_library_writes(name, models):
    model, module = models(name), module_of(name)
    best = tv.translate(model, QUESTION, image=picture(), max_tokens=4)[0]
    ids = list(tv.trace(model, QUESTION, image=picture(), check=False).source.ids)
    for token in best.ids:
        own = run_by_library(name, module, tuple(ids), picture()).logits[0, -1]
        assert token == int(own.argmax())
        ids.append(token)
    wide = tv.translate(model, QUESTION, image=picture(), max_tokens=3, beam=3)
    assert len(wide) == 3


def test_a_target_is_appended_and_rows_are_asked_about_words(models):
    run = tv.trace(models("llava"), QUESTION, "a cat", image=picture(), check=False)
    assert run.source.pieces[-2:] == ("a", "cat")
    before = int(run.patches[0, 0]) - 1
    assert run.produced.ids[before] == int(run.logits[before].argmax())  # no row predicts a patch
    assert run.produced.ids[-3:-1] == run.source.ids[-2:]


def test_one_picture_in_every_form(models, tmp_path):
    path = tmp_path / "cat.png"
    picture().save(path)
    for name in ("llava", "qwen2_vl"):
        model = models(name)
        seen = model.eyes.look(picture())
        forms = (path, str(path), path.read_bytes(), picture(), seen)
        logits = [tv.trace(model, QUESTION, image=form, check=False).logits for form in forms]
        assert all((other == logits[0]).all() for other in logits)
    pixels = image_processor_of("llava")(images=picture(), return_tensors="np")["pixel_values"][0]
    ready = tv.trace(models("llava"), QUESTION, image=pixels.astype(np.float32), check=False)
    plain = tv.trace(models("llava"), QUESTION, image=picture(), check=False)
    assert np.abs(ready.logits - plain.logits).max() <= 1e-5


def test_qwens_pixels_are_put_together_again(models):
    image = picture(32, 24)
    seen = models("qwen2_vl").eyes.look(image)
    assert seen.shown.shape == (24, 32, 3)
    assert np.abs(seen.shown.astype(int) - np.asarray(image)).max() <= 1
    given = (np.asarray(image, np.float32) / 255 - [0.48, 0.45, 0.4]) / [0.27, 0.26, 0.28]
    floats = np.ascontiguousarray(given.transpose(2, 0, 1), np.float32)
    one, other = (
        tv.trace(models("qwen2_vl"), QUESTION, image=form, check=False) for form in (image, floats)
    )
    assert np.abs(one.logits - other.logits).max() <= 1e-4


def test_a_newer_processor_config_is_read_too(tmp_path):
    folder = pictured_folder("llava", tmp_path)
    words = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": words}))
    model = tv.load(folder, device="cpu")
    assert model.eyes is not None
    assert model.eyes.look(picture()).grid == (4, 4)


def test_without_a_vocabulary_ids_are_typed(tmp_path):
    model = tv.load(pictured_folder("llava", tmp_path, vocabulary=False), device="cpu")
    run = tv.trace(model, "1 10 11 4 12", image=picture(), check=False)
    assert run.source.ids == (1, 10, 11, *[IMAGE] * 16, 12)


def test_a_trace_keeps_its_patches_on_disk(models, tmp_path):
    run = tv.trace(models("gemma3"), QUESTION, image=picture(), check=False)
    run.save(tmp_path / "run.safetensors")
    again = tv.Trace.load(tmp_path / "run.safetensors")
    assert (again.patches == run.patches).all()
    assert tv.trace(models("gemma3"), QUESTION, check=False).patches is None


def test_text_alone_is_as_before_and_the_notes_say_both(models):
    model = models("gemma3")
    run = tv.trace(model, QUESTION)
    ids = torch.tensor([run.source.ids])
    with torch.no_grad():
        own = module_of("gemma3", eager=True)(input_ids=ids, output_attentions=True)
    assert np.abs(run.logits - own.logits[0].numpy()).max() <= 1e-5
    assert run.report.status == "green"
    assert "a picture beside it" in model.notes[0]


# ---- what cannot be ----------------------------------------------------------------------------


def test_a_picture_that_cannot_be_read(models, tmp_path):
    llava, qwen = models("llava"), models("qwen2_vl")
    (tmp_path / "odd.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"odd\.png is no picture that can be read"):
        tv.trace(llava, QUESTION, image=tmp_path / "odd.png")
    with pytest.raises(ValueError, match=r"There is no picture '.*none\.png'"):
        tv.trace(qwen, QUESTION, image=tmp_path / "none.png")
    with pytest.raises(ValueError, match=r"has 10,000 x 10,000 pixels; .* are the most"):
        tv.trace(llava, QUESTION, image=Image.new("1", (10_000, 10_000)))
    with pytest.raises(ValueError, match="too long and thin for this model; cut out"):
        tv.trace(qwen, QUESTION, image=picture(4000, 2))
    with pytest.raises(ValueError, match=r"multiples of 8; got float32 \[3, 9, 16\]"):
        tv.trace(qwen, QUESTION, image=np.zeros((3, 9, 16), np.float32))
    with pytest.raises(ValueError, match=r"must be finite floats \[3, 24, 24\]"):
        tv.trace(llava, QUESTION, image=np.zeros((3, 9, 16), np.float32))


def test_a_place_without_its_picture(models):
    for name, typed in TYPED.items():
        with pytest.raises(ValueError, match="place for a picture, and none came"):
            tv.trace(models(name), f"{typed.replace('<boi>', '<boi><image>')} a cat")


def test_a_text_names_its_place_once(models):
    with pytest.raises(ValueError, match="<image> 2 times, and one picture came"):
        tv.trace(models("llava"), "<image> <image>", image=picture())
    with pytest.raises(ValueError, match=r"2 times 4, the place of a picture"):
        tv.trace(models("llava"), [IMAGE, IMAGE, 10], image=picture())
    with pytest.raises(ValueError, match="stand one after the other"):
        tv.trace(models("llava"), [IMAGE] * 8 + [10] + [IMAGE] * 8, image=picture())
    with pytest.raises(ValueError, match="A picture goes beside one text"):
        tv.trace(models("llava"), ("a cat", "a dog"), image=picture())
    with pytest.raises(ValueError, match=r"has 65 tokens and this model reads at most 64"):
        tv.trace(models("llava"), " ".join(["cat"] * 47), image=picture())


@pytest.mark.shipped
def test_models_without_eyes_say_so(tmp_path):
    with pytest.raises(ValueError, match="reads text alone and has no eyes; leave image out"):
        tv.trace(tv.load("en-lm"), "The cat", image=picture())
    with pytest.raises(ValueError, match="leave it out, and give the picture as the source"):
        tv.trace(tv.load("digits"), picture(8, 8), image=picture(8, 8))


def test_a_folder_without_its_processor_says_so(tmp_path):
    folder = pictured_folder("llava", tmp_path)
    (folder / "preprocessor_config.json").unlink()
    model = tv.load(folder, device="cpu")
    assert "its vision part is not run" in model.notes[0]
    assert tv.trace(model, QUESTION, check=False).source.pieces[-1] == "?"
    with pytest.raises(ValueError, match=r"needs a preprocessor_config\.json beside its weights"):
        tv.trace(model, QUESTION, image=picture())


ODD: dict[str, tuple[str, dict[str, Any], str]] = {
    "scans": ("gemma3", {"do_pan_and_scan": True}, "do_pan_and_scan makes several pictures"),
    "cut": ("qwen2_vl", {"patch_size": 5}, "it cuts patches of 5, 2 by 2 of which are one token"),
    "huge": ("qwen2_vl", {"patch_size": 10**9}, "patch_size is a whole number from 1 to"),
    "sizes": ("llava", {"size": "all"}, "preprocessor_config.json cannot be used"),
}


@pytest.mark.parametrize("case", ODD)
def test_a_processor_that_does_not_fit_says_so(case, tmp_path):
    name, words, said = ODD[case]
    folder = pictured_folder(name, tmp_path)
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | words))
    model = tv.load(folder, device="cpu")
    with pytest.raises(ValueError, match="image processor of this model cannot be used") as error:
        tv.trace(model, QUESTION, image=picture())
    assert said in str(error.value)


def test_a_picture_with_too_many_patches_is_refused_before_it_is_made(tmp_path):
    folder = pictured_folder("qwen2_vl", tmp_path)
    path = folder / "preprocessor_config.json"
    large = {"size": {"shortest_edge": 10**12, "longest_edge": 10**13}}
    path.write_text(json.dumps(json.loads(path.read_text()) | large))
    with pytest.raises(ValueError, match=r"tokens of a picture of 40 x 31 pixels, and 4,096 are"):
        tv.trace(tv.load(folder, device="cpu"), QUESTION, image=picture())


def test_other_families_say_that_their_picture_is_not_known(tmp_path):
    from .test_parts import folder_of

    model = tv.load(folder_of("llama4", tmp_path), device="cpu")
    with pytest.raises(ValueError, match="picture beside the text of a llama4 model is not known"):
        tv.trace(model, [5, 6, 7], image=picture())
