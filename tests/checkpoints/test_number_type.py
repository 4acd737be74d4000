"""`load(dtype=, max_memory=, offload_folder=)`: the type of number, and where weights lie."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common import memory
from transformer_viz.inference.findings import findings_of

from .hugging_face import CASES, IDS, folder_of
from .test_loader import put, ramp_model

HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(CASES["llama"], "safetensors", tmp_path)


def theirs(folder: Path, dtype: torch.dtype) -> Any:
    """The library's own logits of the same folder in the same type of number."""
    module = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    with torch.inference_mode():
        return module(IDS[:1]).logits


@pytest.mark.parametrize("word", HALF)
@pytest.mark.parametrize("kind", ["word", "torch dtype"])
def test_a_folder_computes_in_the_type_that_was_asked_for(word, kind, folder):
    dtype = HALF[word]
    model = tv.load(folder, device="cpu", dtype=word if kind == "word" else dtype)
    assert (model.dtype, model.file_dtype) == (word, "float32")
    assert {p.dtype for p in model.module.parameters()} == {dtype}
    with torch.inference_mode():
        assert torch.equal(model.calls.forward(IDS[:1]), theirs(folder, dtype))
    assert any(word in note for note in model.notes)
    trace = tv.trace(model, IDS[0].tolist(), check=False)
    assert trace.manifest["dtype"] == word
    whole = tv.trace(tv.load(folder, device="cpu"), IDS[0].tolist(), check=False)
    off = np.abs(trace.attention("decoder") - whole.attention("decoder")).max()
    assert 0 < off < 0.1


def test_auto_is_the_type_of_the_file(folder, tmp_path):
    half = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float16)
    half.save_pretrained(tmp_path / "half")
    for place, dtype in ((folder, "float32"), (tmp_path / "half", "float16")):
        model = tv.load(place, device="cpu", dtype="auto")
        assert (model.dtype, model.file_dtype) == (dtype, dtype)
    plain = tv.load(tmp_path / "half", device="cpu")
    assert (plain.dtype, plain.file_dtype) == ("float32", "float16")
    assert len(plain.notes) == 1 and 'dtype="auto"' in plain.notes[0]


def test_weights_larger_than_the_free_memory_are_refused_before_they_are_read(
    folder, tmp_path, monkeypatch
):
    file = next(folder.glob("*.safetensors"))
    numbers = sum(tensor.numel() for tensor in load_file(file).values())
    half = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    half.save_pretrained(tmp_path / "half")
    monkeypatch.setattr(memory, "free_memory", lambda: 3 * numbers)
    for place, dtype, fits in (
        (folder, None, False),
        (folder, "auto", False),
        (folder, "bfloat16", True),
        (tmp_path / "half", None, False),
        (tmp_path / "half", "float64", False),
        (tmp_path / "half", "auto", True),
    ):
        if fits:
            assert tv.load(place, device="cpu", dtype=dtype).dtype == "bfloat16", (place, dtype)
            continue
        with pytest.raises(CheckpointError, match="GB of memory are free") as refused:
            tv.load(place, device="cpu", dtype=dtype)
        assert ('dtype="auto"' in str(refused.value)) == (place != folder), (place, dtype)


@pytest.mark.parametrize("word", ["float16", "bfloat16", "float64"])
def test_other_layouts_too(word, tmp_path):
    place = put(tmp_path / "own", ramp_model())
    found = tv.load(place, device="cpu", dtype=word)
    assert (found.dtype, found.file_dtype, len(found.notes)) == (word, "float32", word in HALF)
    source, target = [4, 5, 6, 7], [2, 9, 11]
    maps, whole = (
        tv.trace(model, source, target, check=False).attention("cross")
        for model in (found, tv.load(place, device="cpu"))
    )
    off = np.abs(maps - whole).max()
    # One rounding of a float32 score of 34, as they come here, is 34 eps = 4e-6.
    assert off < 4e-6 if word == "float64" else 0 < off < 0.1


@pytest.mark.parametrize("word", HALF)
def test_pictures_and_vectors_are_brought_to_the_type(word, tmp_path):
    picture = folder_of(CASES["vit"], "safetensors", tmp_path / "picture")
    found = tv.load(picture, device="cpu", dtype=word)
    pixels = np.random.default_rng(0).normal(size=(3, 12, 12)).astype(np.float32)
    assert tv.trace(found, pixels, check=False).logits.dtype == np.float32
    core = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2
    )
    torch.save(core.state_dict(), tmp_path / "core.pt")
    vectors = tv.load(tmp_path / "core.pt", device="cpu", heads=2, dtype=word)
    assert vectors.dtype == word
    rows = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    assert tv.trace(vectors, rows, check=False).attention("encoder").shape == (2, 2, 5, 5)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no such type": ({"dtype": "int8"}, "dtype is float32, float16, .*got 'int8'"),
    "integers": ({"dtype": torch.int8}, "got torch.int8"),
    "one device": (
        {"device": "cpu", "max_memory": {"cpu": 9}},
        "With max_memory a model is spread .* device='cpu' names one",
    ),
    "no such card": (
        {"max_memory": {99: "1GB", "cpu": "1GB"}},
        'max_memory names card 99; this machine has .*card.* the processor "cpu"',
    ),
    "no map": ({"max_memory": 3}, "max_memory says what each device may hold.*got 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_words_that_cannot_be(case, folder):
    words, message = REFUSED[case]
    with pytest.raises(CheckpointError, match=message):
        tv.load(folder, **words)


@pytest.mark.parametrize("words", [{"max_memory": {"cpu": "1GB"}}, {"offload_folder": "rest"}])
def test_spreading_needs_accelerate(words, folder, monkeypatch):
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "transformer_viz.checkpoints.hugging_face.layout.find_spec",
        lambda name: None if name == "accelerate" else own(name),
    )
    with pytest.raises(CheckpointError, match=f"{next(iter(words))} needs the package accelerate"):
        tv.load(folder, **words)


def test_only_folders_of_the_library_are_spread(tmp_path):
    place = put(tmp_path / "own", ramp_model())
    with pytest.raises(CheckpointError, match="Only a Hugging Face folder can be spread"):
        tv.load(place, max_memory={"cpu": "1GB"})


@pytest.mark.parametrize("words", [{"dtype": "float16"}, {"max_memory": {"cpu": 9}}])
def test_a_module_in_memory_stays_as_it_is(words):
    with pytest.raises(CheckpointError, match=f"{next(iter(words))} is for checkpoints on disk"):
        tv.load(ramp_model(), **words)


def test_the_command_line_says_what_it_computes_in(folder):
    from click.testing import CliRunner

    from transformer_viz.cli.main import main

    said = CliRunner().invoke(
        main, ["inspect", str(folder), "--json", "--set", "dtype=bfloat16"], catch_exceptions=False
    )
    assert said.exit_code == 0
    assert json.loads(said.stdout)["dtype"] == "bfloat16"


@pytest.mark.parametrize("word", HALF)
def test_maps_are_those_of_the_rounded_weights_with_scores_in_float32(word, tmp_path):
    """The witness: softmax in float64 of the queries and keys that the rounded weights gave."""
    folder = folder_of(CASES["bert"], "safetensors", tmp_path)
    model = tv.load(folder, device="cpu", dtype=word)
    seen: dict[str, torch.Tensor] = {}
    inner = model.module.bert.encoder.layer[1].attention.self
    hooks = [
        part.register_forward_hook(lambda _m, _in, out, name=name: seen.update({name: out}))
        for name, part in (("q", inner.query), ("k", inner.key))
    ]
    ids = IDS[:1, :6]
    with torch.inference_mode():
        model.calls.forward(ids)
    for hook in hooks:
        hook.remove()
    assert seen["q"].dtype == HALF[word]
    q, k = (seen[name][0].double().unflatten(-1, (2, 10)).transpose(0, 1) for name in "qk")
    scores = q @ k.transpose(-2, -1) / 10**0.5
    trace = tv.trace(model, ids[0].tolist(), keep=("weights", "scores"))
    shown = trace.attentions[1]
    assert (shown.weights.dtype, shown.scores.dtype) == (np.float32, np.float32)
    np.testing.assert_allclose(shown.scores, scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(shown.weights, scores.softmax(-1), atol=1e-6)


@pytest.mark.parametrize("word", HALF)
def test_the_report_knows_the_rounding_of_half_precision(word, folder):
    model = tv.load(folder, device="cpu", dtype=word)
    trace = tv.trace(model, IDS[0, :6].tolist())
    report = trace.report
    assert report.status == "green"
    assert max(filter(None, report.rebuilt.values())) > report.TOLERANCE
    assert report.allowed == 4 * torch.finfo(HALF[word]).eps
    said = [line for finding in findings_of(trace) for line in finding.details]
    assert sum("half precision" in line for line in said) == 1
    wrong = dict.fromkeys(report.rebuilt, 2 * report.allowed)
    assert dataclasses.replace(report, rebuilt=wrong).status == "amber"


def test_float32_is_held_to_as_much_as_before(folder):
    report = tv.trace(tv.load(folder, device="cpu"), IDS[0, :6].tolist()).report
    assert (report.status, report.allowed) == ("green", 1e-4)
