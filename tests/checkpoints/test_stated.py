"""What a file states is read before anything is guessed, and a guess is marked as one."""

from __future__ import annotations

import argparse
import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from tests.checkpoints import (
    annotated,
    fairseq,
    gpt,
    jadore,
    labml,
    opennmt,
    timm,
    torch_core,
    torch_tutorial,
)
from tests.checkpoints.hostile import theirs
from transformer_viz.checkpoints import loader
from transformer_viz.checkpoints.common.provenance import GUESSES
from transformer_viz.checkpoints.common.stated import statements
from transformer_viz.checkpoints.common.synonyms import SYNONYMS, plain_name

IDS = {"pad_id", "bos_id", "eos_id"}
HEADS = {"heads", "d_k", "d_v"}
SIGHT = {"heads", "image_size", "mean", "std", "interpolation", "crop"}


def of_nanogpt(folder: Path, **words: Any) -> dict[str, Tensor]:
    """The state dict of nanoGPT, by its plain names."""
    return dict(gpt.nanogpt_file(folder, **words)[1])


def of_language_model(folder: Path) -> dict[str, Tensor]:
    layer = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    parts = {"embedding": nn.Embedding(19, 12), "transformer_encoder": stack}
    return dict(nn.ModuleDict(parts | {"linear": nn.Linear(12, 19)}).state_dict())


def untied(folder: Path) -> dict[str, Tensor]:
    held = of_nanogpt(folder)
    return held | {"lm_head.weight": held["lm_head.weight"] + 1}


def stored(maker: Callable[..., tuple[Path, Any]], *given: Any) -> Callable[[Path], Any]:
    """The state dict in the file that a maker writes."""

    def read(folder: Path) -> Any:
        content = torch.load(maker(folder, *given)[0], weights_only=False)
        own = content.get("model", content)
        beside = content.get("generator")
        return own if beside is None else {"model": own, "generator": beside}

    return read


def first(variants: Any) -> Any:
    return next(iter(variants.values()))


CHOICES = {"norm", "activation", "norm_eps"}
#: For each layout a state dict that states nothing, a number of heads that it allows, and what is
#: then a guess: what the code base always does is none, what it lets a user choose is one.
SILENT: dict[str, tuple[Callable[[Path], Any], int, set[str]]] = {
    "nanogpt": (of_nanogpt, 11, HEADS | {"activation"}),
    "mingpt": (untied, 11, HEADS | {"activation"}),
    "mingpt of 2020": (stored(gpt.mingpt_2020_file), 11, HEADS),
    "gpt2": (stored(gpt.gpt2_file), 11, HEADS | {"activation", "norm_eps"}),
    "annotated_transformer": (lambda _: annotated.state(), 3, HEADS | IDS),
    "labml": (lambda _: labml.state(first(labml.VARIANTS)), 3, HEADS | {"activation"}),
    "jadore_2018": (lambda _: jadore.content("2018", False, False)["model"], 3, HEADS),
    "jadore_2020": (
        lambda _: jadore.content("2020", False, True)["model"],
        3,
        HEADS | IDS
        | {"norm", "embedding_norm", "final_norm", "embedding_scale", "logit_scale"},
    ),
    "fairseq": (
        stored(fairseq.save, first(fairseq.VARIANTS)),
        2,
        HEADS | {"activation", "max_positions", "embedding_scale"},
    ),
    "opennmt": (
        stored(opennmt.save, first(opennmt.VARIANTS)),
        opennmt.HEADS,
        HEADS | IDS | {"activation", "norm_eps"},
    ),
    "timm": (lambda _: timm.state(timm.VARIANTS[0]), timm.H, SIGHT),
    "torch_tutorial_seq2seq": (lambda _: torch_tutorial.state(), 3, HEADS | IDS | CHOICES),
    "torch_transformer": (
        lambda _: torch_core.state(torch_core.VARIANTS[0]), 3, {"heads"} | CHOICES
    ),
    "torch_language_model": (
        of_language_model,
        3,
        HEADS | CHOICES | {"positions", "max_positions", "kind", "embedding_scale"},
    ),
}  # fmt: skip
ELSEWHERE = {  # a config says everything, or a table of names is given (their own tests)
    *("hugging_face", "transformer_viz", "jadore_2019", "torch_seq2seq", "reference"),
}


def opened(folder: Path, content: Any, **words: Any) -> tv.Model:
    """Save the content with torch.save and load it."""
    torch.save(content, folder / "m.pt")
    return tv.load(folder / "m.pt", device="cpu", **words)


def wrapped(weights: Any, **beside: Any) -> dict[str, Any]:
    """A file with a state dict and something beside it."""
    return (
        weights if isinstance(next(iter(weights.values())), dict) else {"model": weights}
    ) | beside


@pytest.mark.slow
def test_what_a_file_does_not_state_is_a_guess_and_what_it_states_is_none(tmp_path):
    for name, (make, heads, guesses) in SILENT.items():
        folder = tmp_path / name
        folder.mkdir()
        weights = make(folder)
        model = opened(tmp_path, wrapped(weights))
        assert model.layout == name.partition(" ")[0]
        own = {word for word in guesses if word in model.config}
        assert {w for w, origin in model.provenance.items() if origin in GUESSES} == own, name
        said = argparse.Namespace(nhead=heads, activation="nn.GELU()")
        model = opened(tmp_path, wrapped(weights, args=said))
        assert (model.config["heads"], model.provenance["heads"]) == (heads, "file"), name
        assert (model.config["activation"], model.provenance["activation"]) == ("gelu", "file")
        assert {"heads", "d_k", "d_v", "activation"}.isdisjoint(model.guesses), name


def test_the_tables_are_whole():
    layouts = {layout.NAME for layout in loader.layouts}
    assert layouts - {name.partition(" ")[0] for name in SILENT} == ELSEWHERE & layouts
    names = [name for synonyms in SYNONYMS.values() for name in synonyms]
    assert len(names) == len(set(names))  # no name means two words
    assert all(plain_name(name) == name for name in names)


TAG = "!!python/object:argparse.Namespace"
STATED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Lightning": ({"hyper_parameters": {"n_head": 11}}, {}),
    "nested twice": ({"config": {"cfg": {"model": {"nHead": 11}}}}, {}),
    "at the top": ({"num_heads": 11}, {}),
    "as JSON in a text": ({"config": json.dumps({"attention": {"nb_heads": 11}})}, {}),
    "the width of a head": ({"hparams": {"head_dim": 2}}, {}),
    "one for each layer": ({"hparams": {"n_head": [11, 11, 11]}}, {}),
    "not of a teacher": ({"config": {"model": {"n_head": 11}, "teacher": {"n_head": 2}}}, {}),
    "of the model, not the run": ({"args": {"n_head": 2}, "model_args": {"n_head": 11}}, {}),
    "a number of NumPy": ({"hparams": {"n_head": np.int64(11), "act": np.str_("gelu")}}, {}),
    "a tensor for all layers": ({"hparams": {"n_heads": torch.full((2,), 11)}}, {}),
    "an object": ({"config": theirs.Options(n_head=11)}, {}),
    "a dictionary of its own": ({"config": theirs.Words(n_head=11)}, {}),
    "as omegaconf": ({"cfg": theirs.Config(model=theirs.Config(n_head=11))}, {}),
    "args.json": ({}, {"args.json": '{"n_head": 11}'}),
    "hparams.yaml": ({}, {"hparams.yaml": "n_head: 11\nlr: 1e-3\n"}),
    "YAML with tags": ({}, {"hparams.yaml": f"a: {TAG}\n  n_head: 11\n"}),
    "cfg.yaml": ({}, {"cfg.yaml": "model: {n_head: 11}\n"}),
    "one folder up": ({}, {"../hparams.yaml": "n_head: 11\n"}),
    "hydra": ({}, {"../.hydra/config.yaml": "model:\n  n_head: 11\n"}),
    "Weights & Biases": ({}, {"config.yaml": "n_head:\n  desc: null\n  value: 11\n"}),
    "TOML": ({}, {"config.toml": "[model]\nn_head = 11\n"}),
}


def test_heads_are_read_wherever_they_are_stated(tmp_path):
    weights = of_nanogpt(tmp_path)
    for number, (case, (inside, beside)) in enumerate(STATED.items()):
        folder = tmp_path / str(number) / "checkpoints"
        folder.mkdir(parents=True)
        for name, text in beside.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        model = opened(folder, {"model": weights} | inside)
        found = (model.config["heads"], model.provenance["heads"])
        assert found == (11, "sidecar" if beside else "file"), case
        act = gpt.tanh if model.config["activation"] == "gelu_tanh" else F.gelu
        logits = gpt.forward(weights, gpt.IDS, act, heads=11)[1]
        assert (model.calls.forward(gpt.IDS) - logits).abs().max() < 2e-5, case
        assert theirs.CALLED == [], case
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    said = {"format": "pt", "config": json.dumps({"n_head": 11})}  # the header of safetensors
    safetensors.torch.save_file(weights, tmp_path / "m.safetensors", said)
    assert tv.load(tmp_path / "m.safetensors", device="cpu").config["heads"] == 11


def test_options_that_torch_saved_beside_the_weights_are_read(tmp_path):
    """Weights and optimizers under such names are none, and what could run is passed over."""
    weights = of_nanogpt(tmp_path)
    for name, held, wanted in (
        ("args.pt", argparse.Namespace(n_head=11, out=Path("x")), 11),
        ("hparams.pt", {"model": {"nheads": 11}}, 11),
        ("m_config.pt", theirs.Options(n_head=11), 11),
        ("params.pt", {"n_head": torch.ones(3), "w": torch.ones(3)}, None),
        ("opt.pt", {"n_head": os.system}, None),
    ):
        folder = tmp_path / name
        folder.mkdir()
        torch.save(held, folder / name)
        model = opened(folder, weights)
        stated = model.config["heads"] if model.provenance["heads"] == "sidecar" else None
        assert stated == wanted, name
        assert any("opt.pt" in note for note in model.notes) == (name == "opt.pt"), name
    assert theirs.CALLED == []


def test_other_words_are_read_in_the_forms_that_scripts_give_them(tmp_path):
    weights = of_nanogpt(tmp_path)
    for word, given, wanted in (
        ("activation", {"act": theirs.Kind.GELU}, "gelu_tanh"),
        ("activation", {"act": functools.partial(F.gelu, approximate="tanh")}, "gelu_tanh"),
        ("activation", {"act_layer": nn.SiLU}, "silu"),
        ("activation", {"activation": nn.ReLU()}, "relu"),
        ("activation", {"hidden_act": "torch.nn.functional.gelu"}, "gelu"),
        ("norm_eps", {"layer_norm_epsilon": "1e-6"}, 1e-6),
        ("norm_eps", {"norm_layer": functools.partial(nn.LayerNorm, eps=1e-6)}, 1e-6),
        ("eos_id", {"eos_token_id": 7}, 7),
        ("norm", {"norm_first": False}, "post"),
    ):
        model = opened(tmp_path, {"model": weights, "hparams": given | {"n_head": 11}})
        assert (model.config[word], model.provenance[word]) == (wanted, "file"), given


def test_a_value_that_the_shapes_contradict_is_a_note(tmp_path):
    said = {"n_head": 7, "n_embd": 128, "n_layer": 3, "block_size": 99, "eos_token_id": 50256}
    model = opened(tmp_path, {"model": of_nanogpt(tmp_path), "config": said})
    assert model.config["d_model"] == gpt.D and model.provenance["heads"] == "convention"
    for name in ("n_head=7", "n_embd=128", "block_size=99", "eos_token_id=50256"):
        assert any(f"config.{name} is stated" in note for note in model.notes), name
    assert not any("n_layer" in note for note in model.notes)
    both = {"config": {"n_head": 2}, "args": {"n_head": 11}}
    model = opened(tmp_path, {"model": of_nanogpt(tmp_path)} | both)
    assert model.provenance["heads"] == "convention"
    assert any("config.n_head=2 and args.n_head=11" in note for note in model.notes)


def test_files_beside_that_are_damaged_or_mean_harm_are_passed_over(tmp_path):
    torch.save(of_nanogpt(tmp_path), tmp_path / "m.pt")
    canary = tmp_path / "canary"
    bomb = "a: &a {k: 1}\n" + "".join(f"b{n}: [*a, *a, *a, *a]\n" for n in range(9))
    for text, noted in (
        (f"x: !!python/object/apply:os.system ['touch {canary}']\n", False),
        ("a: [1\n", True),
        (bomb, True),
        ("[" * 5000, True),
        ("a: " + "x" * 2**18, True),
        ("[" * 2**16, True),  # minutes of PyYAML
    ):
        (tmp_path / "hparams.yaml").write_text(text)
        model = tv.load(tmp_path / "m.pt", device="cpu", heads=11)
        assert any("hparams.yaml" in note for note in model.notes) == noted, text[:40]
    (tmp_path / "hparams.yaml").unlink()
    (tmp_path / "config.toml").write_text("a." * 60_000 + "a = 1")  # a minute of tomllib
    model = tv.load(tmp_path / "m.pt", device="cpu", heads=11)
    assert any("config.toml" in note for note in model.notes)
    assert not canary.exists()


def test_a_word_list_named_as_the_weights_states_nothing(tmp_path):
    letters = {letter: n for n, letter in enumerate("abcdenhiklm")}
    assert letters["h"] == 6 and plain_name("h") in SYNONYMS["heads"]
    assert not list(statements({"m.json": letters, "vocabulary": {"stoi": letters}}))
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    assert [one.word for one in statements({"m.json": ids})] == list(ids)
    torch.save(of_language_model(tmp_path), tmp_path / "m.pt")
    for held in (letters, list(letters)):
        (tmp_path / "m.json").write_text(json.dumps(held))
        model = tv.load(tmp_path / "m.pt", device="cpu", heads=3)
        assert not any("m.json" in note and "left out" in note for note in model.notes), held
        assert "sidecar" not in model.provenance.values()


def test_objects_are_left_out_by_name_and_nothing_of_them_runs(tmp_path):
    path, weights = tmp_path / "m.pt", of_nanogpt(tmp_path)
    content = {"model": weights, "hparams": {"config": theirs.Options(), "lr": 0.1}}
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        torch.save(content, path, **options)
        model = tv.load(path, device="cpu", heads=11)
        assert any(
            "hparams.config (tests.checkpoints.hostile.theirs.Options)" in n for n in model.notes
        )
        assert model.config["activation"] == "gelu_tanh"
    assert theirs.CALLED == []


def test_other_activation_than_a_presumed_one_is_what_the_witness_shows(tmp_path):
    """nanoGPT with an output of its own: stated options settle its exact GELU."""
    weights = untied(tmp_path)
    for content, sure in (
        ({"model": weights, "model_args": {"n_head": 11}}, "layout"),
        ({"model": weights, "config": {"n_head": 11, "activation": "gelu"}}, "file"),
    ):
        model = opened(tmp_path, content)
        assert model.provenance["activation"] == sure and "activation" not in model.guesses
        logits = gpt.forward(weights, gpt.IDS, F.gelu, heads=11)[1]
        assert (model.calls.forward(gpt.IDS) - logits).abs().max() < 2e-5
