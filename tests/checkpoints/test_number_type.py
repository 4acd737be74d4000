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
from click.testing import CliRunner
from safetensors.torch import load_file

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common import memory
from transformer_viz.cli.main import main
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


@pytest.mark.slow
def test_a_folder_computes_in_the_type_that_was_asked_for(folder):
    ids = IDS[0].tolist()
    whole = tv.trace(tv.load(folder, device="cpu"), ids[:6])
    assert (whole.report.status, whole.report.allowed) == ("green", 1e-4)
    for word, dtype in HALF.items():
        for asked in (word, dtype):
            model = tv.load(folder, device="cpu", dtype=asked)
            assert (model.dtype, model.file_dtype) == (word, "float32"), asked
            assert {p.dtype for p in model.module.parameters()} == {dtype}, asked
            with torch.inference_mode():
                assert torch.equal(model.calls.forward(IDS[:1]), theirs(folder, dtype)), asked
            assert any(word in note for note in model.notes), asked
        trace = tv.trace(model, ids[:6])
        assert trace.manifest["dtype"] == word
        off = np.abs(trace.attention("decoder") - whole.attention("decoder")).max()
        assert 0 < off < 0.1, word
        # The report knows the rounding of half precision.
        report = trace.report
        assert report.status == "green", word
        assert max(filter(None, report.rebuilt.values())) > report.TOLERANCE, word
        assert report.allowed == 4 * torch.finfo(dtype).eps, word
        said = [line for finding in findings_of(trace) for line in finding.details]
        assert sum("half precision" in line for line in said) == 1, word
        wrong = dict.fromkeys(report.rebuilt, 2 * report.allowed)
        assert dataclasses.replace(report, rebuilt=wrong).status == "amber", word
    said = CliRunner().invoke(main, ["inspect", str(folder), "--json", "--set", "dtype=bfloat16"])
    assert json.loads(said.stdout)["dtype"] == "bfloat16"


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


def test_other_layouts_pictures_and_vectors_are_brought_to_the_type(tmp_path):
    place = put(tmp_path / "own", ramp_model())
    source, target = [4, 5, 6, 7], [2, 9, 11]
    whole = tv.trace(tv.load(place, device="cpu"), source, target, check=False).attention("cross")
    picture = folder_of(CASES["vit"], "safetensors", tmp_path / "picture")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
    core = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    torch.save(core.state_dict(), tmp_path / "core.pt")
    draw = np.random.default_rng(0)
    pixels, rows = (draw.normal(size=s).astype(np.float32) for s in ((3, 12, 12), (5, 8)))
    for word in (*HALF, "float64"):
        found = tv.load(place, device="cpu", dtype=word)
        assert (found.dtype, found.file_dtype, len(found.notes)) == (word, "float32", word in HALF)
        off = np.abs(tv.trace(found, source, target, check=False).attention("cross") - whole).max()
        # One rounding of a float32 score of 34, as they come here, is 34 eps = 4e-6.
        assert off < 4e-6 if word == "float64" else 0 < off < 0.1, word
        seeing = tv.load(picture, device="cpu", dtype=word)
        assert tv.trace(seeing, pixels, check=False).logits.dtype == np.float32, word
        vectors = tv.load(tmp_path / "core.pt", device="cpu", heads=2, dtype=word)
        assert vectors.dtype == word
        maps = tv.trace(vectors, rows, check=False).attention("encoder")
        assert maps.shape == (2, 2, 5, 5), word


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"dtype": "int8"}, "dtype is float32, float16, .*got 'int8'"),
    ({"dtype": torch.int8}, "got torch.int8"),
    (
        {"device": "cpu", "max_memory": {"cpu": 9}},
        "With max_memory a model is spread .* device='cpu' names one",
    ),
    (
        {"max_memory": {99: "1GB", "cpu": "1GB"}},
        'max_memory names card 99; this machine has .*card.* the processor "cpu"',
    ),
    ({"max_memory": 3}, "max_memory says what each device may hold.*got 3"),
)


def test_words_that_cannot_be(folder, tmp_path, monkeypatch):
    for words, message in REFUSED:
        with pytest.raises(CheckpointError, match=message):
            tv.load(folder, **words)
    with pytest.raises(CheckpointError, match="Only a Hugging Face folder can be spread"):
        tv.load(put(tmp_path / "own", ramp_model()), max_memory={"cpu": "1GB"})
    for words in ({"dtype": "float16"}, {"max_memory": {"cpu": 9}}):
        with pytest.raises(
            CheckpointError, match=f"{next(iter(words))} is for checkpoints on disk"
        ):
            tv.load(ramp_model(), **words)
    own = importlib.util.find_spec
    monkeypatch.setattr(
        "transformer_viz.checkpoints.hugging_face.layout.find_spec",
        lambda name: None if name == "accelerate" else own(name),
    )
    for words in ({"max_memory": {"cpu": "1GB"}}, {"offload_folder": "rest"}):
        with pytest.raises(CheckpointError, match=f"{next(iter(words))} needs the package accel"):
            tv.load(folder, **words)


@pytest.mark.slow
def test_maps_are_those_of_the_rounded_weights_with_scores_in_float32(tmp_path):
    """The witness: softmax in float64 of the queries and keys that the rounded weights gave."""
    folder, ids = folder_of(CASES["bert"], "safetensors", tmp_path), IDS[:1, :6]
    for word, dtype in HALF.items():
        model = tv.load(folder, device="cpu", dtype=word)
        seen: dict[str, torch.Tensor] = {}
        inner = model.module.bert.encoder.layer[1].attention.self

        def keep(
            part: Any, _: Any, out: torch.Tensor, seen: Any = seen, inner: Any = inner
        ) -> None:
            seen["q" if part is inner.query else "k"] = out

        hooks = [part.register_forward_hook(keep) for part in (inner.query, inner.key)]
        with torch.inference_mode():
            model.calls.forward(ids)
        for hook in hooks:
            hook.remove()
        assert seen["q"].dtype == dtype
        q, k = (seen[name][0].double().unflatten(-1, (2, 10)).transpose(0, 1) for name in "qk")
        scores = q @ k.transpose(-2, -1) / 10**0.5
        shown = tv.trace(model, ids[0].tolist(), keep=("weights", "scores")).attentions[1]
        assert (shown.weights.dtype, shown.scores.dtype) == (np.float32, np.float32)
        np.testing.assert_allclose(shown.scores, scores, rtol=1e-5, atol=1e-5, err_msg=word)
        np.testing.assert_allclose(shown.weights, scores.softmax(-1), atol=1e-6, err_msg=word)
