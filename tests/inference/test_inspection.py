"""What is said of a model is what it is: words, parts, vocabulary, and the proof of the capture."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.common.parameter_counts import parameter_blocks
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import KernelRun
from transformer_viz.inference import inspection
from transformer_viz.inference.inspection import inspect, sample_source, sample_target
from transformer_viz.preprocessing.tokenizers import SentencePieceText

from ..conftest import TINY, make_model


def test_the_blocks_of_a_model_are_counted_by_hand(tiny_model: Model) -> None:
    c = TINY
    counts = {block.label: block.count for block in parameter_blocks(tiny_model)}
    keys = 2 * c.heads * (c.d_k * (c.d_model + 1))
    attention = keys + c.heads * c.d_v * (c.d_model + 1) + c.d_model * (c.heads * c.d_v + 1)
    forward = c.d_ff * (c.d_model + 1) + c.d_model * (c.d_ff + 1)
    for layer in range(c.encoder_layers):
        assert counts[f"encoder L{layer} self"] == attention
        assert counts[f"encoder L{layer} feed-forward"] == forward
        assert counts[f"encoder L{layer} norms"] == 2 * 2 * c.d_model
    for layer in range(c.decoder_layers):
        assert counts[f"decoder L{layer} self"] == attention
        assert counts[f"decoder L{layer} cross"] == attention
        assert counts[f"decoder L{layer} norms"] == 3 * 2 * c.d_model
    assert counts["norms"] == 2 * 2 * c.d_model
    assert counts["output"] == c.d_model * c.target_vocab
    assert counts["embedding"] == c.d_model * (c.source_vocab + c.target_vocab)
    assert sum(counts.values()) == tiny_model.parameters


#: Names as code bases give them, and where they belong.
NAMES = {
    "transformer.wte": ("decoder-only", "embedding"),
    "transformer.h.3.attn.c_attn": ("decoder-only", "decoder L3 self"),
    "transformer.h.3.mlp.c_fc": ("decoder-only", "decoder L3 feed-forward"),
    "transformer.h.3.ln_1": ("decoder-only", "decoder L3 norms"),
    "transformer.ln_f": ("decoder-only", "norms"),
    "lm_head": ("decoder-only", "output"),
    "bert.embeddings.word_embeddings": ("encoder-only", "embedding"),
    "bert.encoder.layer.1.attention.self.query": ("encoder-only", "encoder L1 self"),
    "bert.encoder.layer.1.attention.output.dense": ("encoder-only", "encoder L1 self"),
    "bert.encoder.layer.1.attention.output.LayerNorm": ("encoder-only", "encoder L1 norms"),
    "bert.encoder.layer.1.intermediate.dense": ("encoder-only", "encoder L1 feed-forward"),
    "bert.encoder.layer.1.output.dense": ("encoder-only", "encoder L1 feed-forward"),
    "model.decoder.layers.0.encoder_attn.k_proj": ("encoder-decoder", "decoder L0 cross"),
    "shared": ("encoder-decoder", "embedding"),
    "decoder.block.2.layer.1.EncDecAttention.q": ("encoder-decoder", "decoder L2 cross"),
    "decoder.block.2.layer.2.DenseReluDense.wi": ("encoder-decoder", "decoder L2 feed-forward"),
    "encoder.layer_stack.4.slf_attn.w_qs": ("encoder-decoder", "encoder L4 self"),
    "decoder.layer_stack.4.enc_attn.w_qs": ("encoder-decoder", "decoder L4 cross"),
    "encoder.layer_stack.4.pos_ffn.w_1": ("encoder-decoder", "encoder L4 feed-forward"),
    "decoder.layers.1.multihead_attn.out_proj": ("encoder-decoder", "decoder L1 cross"),
    "blocks.5.attn.qkv": ("encoder-only", "encoder L5 self"),
    "blocks.5.mlp.fc2": ("encoder-only", "encoder L5 feed-forward"),
    "patch_embed.proj": ("encoder-only", "embedding"),
    "cls_token": ("encoder-only", "embedding"),
    "head": ("encoder-only", "output"),
    "generator.0": ("encoder-decoder", "output"),
}


def nested(names: list[str]) -> nn.Module:
    """A module with a parameter of two numbers under each of these names."""
    root = nn.Module()
    for name in names:
        place = root
        for part in name.split("."):
            if part not in dict(place.named_children()):
                place.add_module(part, nn.Module())
            place = place.get_submodule(part)
        place.weight = nn.Parameter(torch.zeros(2))
    return root


@pytest.mark.parametrize("kind", ["encoder-decoder", "encoder-only", "decoder-only"])
def test_names_of_other_code_bases_find_their_block(kind: str, tiny_model: Model) -> None:
    wanted = {name: label for name, (of, label) in NAMES.items() if of == kind}
    model = dataclasses.replace(tiny_model, kind=kind, module=nested(list(wanted)))
    found = {name: block.label for block in parameter_blocks(model) for name in block.names}
    assert found == {f"{name}.weight": label for name, label in wanted.items()}
    assert sum(block.count for block in parameter_blocks(model)) == 2 * len(wanted)


def test_every_word_says_where_it_came_from_and_whether_it_is_a_guess(tiny_model: Model) -> None:
    origins = {"heads": "convention", "d_k": "shapes", "norm": "override"}
    model = dataclasses.replace(tiny_model, provenance=tiny_model.provenance | origins)
    rows = {row.word: row for row in inspect(model, report=False).config}
    assert rows.keys() == model.config.keys()
    assert (rows["heads"].value, rows["heads"].origin, rows["heads"].guess) == (
        2,
        "convention",
        True,
    )
    assert rows["heads"].meaning == "the usual choice" and rows["heads"].guess
    assert rows["d_k"].meaning == "read off the shapes of the weights"
    assert not rows["norm"].guess
    assert inspect(model, report=False).guesses == ("heads",)


MODELS: dict[str, dict[str, Any]] = {
    "translation": {},
    "language model": {"encoder_layers": 0, "source_vocab": 0},
    "encoder with words": {"decoder_layers": 0},
    "vectors": {"decoder_layers": 0, "source_vocab": 0, "target_vocab": 0},
    "few positions": {"max_positions": 3},
    "small vocabulary": {"source_vocab": 5, "target_vocab": 5},
}


@pytest.mark.parametrize("case", MODELS)
def test_a_sample_runs_through_every_kind_of_model(case: str) -> None:
    model = make_model(**MODELS[case])
    found = inspect(model)
    assert found.status == "green", found.findings
    assert [finding.status for finding in found.findings] == ["green"] * 5
    words = model.config
    cross = min(words["encoder_layers"], 1) * words["decoder_layers"]
    assert len(found.sites) == words["encoder_layers"] + words["decoder_layers"] + cross
    assert all(site.heads == 2 for site in found.sites)
    assert found.norms
    own = tv.trace(model, sample_source(model), sample_target(model))
    assert tuple(own.positions) == found.positions
    assert json.loads(json.dumps(found.to_dict()))["report"] == "green"


def test_a_sample_is_the_same_each_time_and_within_the_vocabulary(tiny_model: Model) -> None:
    ids = sample_source(tiny_model)
    assert ids == sample_source(tiny_model)
    assert len(set(ids)) == len(ids) == 12
    assert max(ids) < 37
    assert not {tiny_model.pad_id, tiny_model.bos_id, tiny_model.eos_id} & set(ids)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_a_sample_is_cut_to_what_a_small_model_takes(
    build_model: Callable[..., Model], tiny_vocabulary: bytes, positions: str
) -> None:
    words = {"source_vocab": 331, "target_vocab": 331}
    model = build_model(max_positions=7, positions=positions, **words)
    model = dataclasses.replace(model, tokenizer=SentencePieceText(tiny_vocabulary))
    whole = model.tokenizer.source_ids(inspection.SENTENCE)
    assert sample_source(model) == whole[:7] != whole
    assert len(sample_target(model)) == 7
    assert inspect(model).status == "green"


def test_a_model_of_pictures_gets_a_picture(tiny_model: Model) -> None:
    from transformer_viz.preprocessing.images import ImageReader

    reader = ImageReader(height=8, width=6, channels=3, patch=(2, 2))
    model = dataclasses.replace(tiny_model, takes="image", image=reader, kind="encoder-only")
    picture = sample_source(model)
    assert (picture.shape, picture.dtype) == ((3, 8, 6), np.float32)
    assert np.array_equal(reader.pixels(picture), picture)
    assert (picture.min(), picture.max()) == (-1, 1)


CHANGED: dict[str, tuple[dict[str, Any], int, str]] = {
    "not the same output": ({"output_difference": 0.3}, 1, "changes the output by 3e-01"),
    "not compared": ({"output_difference": None}, 1, "was not checked"),
    "rows": ({"row_sum_error": 0.01}, 2, "do not explain the output: rows"),
    "rows of no number": ({"row_sum_error": float("nan")}, 2, "do not explain the output"),
    "one block": ({"rebuilt": {"cross L1": 0.2, "cross L0": 0.0}}, 2, r"output in cross L1: rows"),
    "no block": ({"rebuilt": {"cross L1": None}}, 2, "no block could be rebuilt"),
    "missed": (
        {"kernels": (KernelRun("_softmax", "layer", 4, 4, "missed"),)},
        3,
        "1 of 1 softmaxes that ran weigh something and are shown nowhere",
    ),
    "below not looked at": ({"kernels": ()}, 3, "What ran below the probe was not looked at"),
    "a law that fails": ({"laws": {"cross L1": {"heads": 0.2}}}, 4, "on this input: cross L1."),
    "a law not told": ({"laws": {"cross L1": {"batch": None}}}, 4, "on this input: cross L1."),
    "unknown": (
        {"unrecognised": ("a softmax",)},
        0,
        "1 place in the model could not be understood",
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_what_does_not_agree_turns_amber(
    case: str, tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, place, sentence = CHANGED[case]

    def altered(*args: Any, **words: Any) -> Trace:
        run = tv.trace(*args, **words)
        return dataclasses.replace(run, report=dataclasses.replace(run.report, **changes))

    monkeypatch.setattr(inspection, "trace", altered)
    found = inspect(tiny_model)
    assert found.status == "amber"
    statuses = [finding.status for finding in found.findings]
    assert statuses == ["amber" if n == place else "green" for n in range(5)]
    assert sentence in found.findings[place].sentence


def test_what_could_not_be_checked_is_counted(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered(*args: Any, **words: Any) -> Trace:
        run = tv.trace(*args, **words)
        rebuilt = {"cross L0": None, "cross L1": 1e-7}
        return dataclasses.replace(run, report=dataclasses.replace(run.report, rebuilt=rebuilt))

    monkeypatch.setattr(inspection, "trace", altered)
    finding = inspect(tiny_model).findings[2]
    assert finding.status == "green"
    assert "(1 of 2 could not be checked)" in finding.sentence
    assert "cross L0: not checked" in finding.details


class Stubborn(nn.Module):
    """Takes nothing that a sample could be."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("not\nwith me")


def test_a_module_that_no_sample_fits_says_so() -> None:
    found = inspect(tv.load(Stubborn()))
    assert (found.status, found.sites) == ("amber", ())
    assert "could not be run through this model: not with me" in found.findings[0].sentence
    assert inspect(tv.load(Stubborn()), report=False).status == "not run"


def put(folder: Path, **files: str) -> Path:
    """A checkpoint folder with further files beside it; __ in their names is a dot."""
    model = make_model()
    folder.mkdir()
    weights = {n: t.contiguous() for n, t in model.module.state_dict().items()}
    safetensors.torch.save_file(weights, folder / "weights.safetensors")
    words = {"layout": "transformer_viz", "title": "Tiny"} | model.config
    (folder / "config.json").write_text(json.dumps(words))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_card_licence_size_and_hash_are_those_of_the_folder(tmp_path: Path) -> None:
    card = "# Tiny <script>\n" + "line\n" * 60
    folder = put(tmp_path / "tiny", README__md=card, LICENSE="MIT License\n\nCopyright\n1\n2")
    found = inspect(tv.load(folder, device="cpu"), report=False)
    assert found.card.splitlines() == ["# Tiny <script>", *["line"] * 39]
    assert found.licence == "MIT License\n\nCopyright\n1"
    assert found.size == (folder / "weights.safetensors").stat().st_size
    assert (found.name, found.title, len(found.hash)) == ("tiny", "Tiny", 64)
    plain = inspect(tv.load(put(tmp_path / "bare"), device="cpu"), report=False)
    assert (plain.card, plain.licence) == ("", "")


def test_what_was_taken_off_the_weights_is_told(tmp_path: Path) -> None:
    model = make_model()
    state = {f"module.{name}": tensor for name, tensor in model.module.state_dict().items()}
    torch.save({"model": state}, tmp_path / "w.pt")
    (tmp_path / "config.json").write_text(json.dumps(model.config))
    found = inspect(tv.load(tmp_path / "w.pt", device="cpu"), report=False)
    assert found.unwrapped == (
        "the weights stood under 'model'",
        "the prefix 'module.' was taken off every name",
    )


@pytest.mark.shipped
def test_the_vocabulary_of_the_shipped_model_is_sampled() -> None:
    model = tv.load("en-de", device="cpu")
    found = inspect(model)
    pieces = model.tokenizer.pieces
    assert found.vocabulary.size == len(pieces) == model.config["target_vocab"]
    assert len(found.vocabulary.sample) == 24
    assert found.vocabulary.sample[0] == pieces[0]
    assert found.vocabulary.sample[-1] == pieces[-1]
    assert ("end", 3, "</s>") in found.vocabulary.special
    assert not found.vocabulary.typed
    assert found.status == "green"
    assert found.card.startswith("# English to German")


def test_ids_that_are_typed_have_no_pieces(tiny_model: Model) -> None:
    words = inspect(tiny_model, report=False).vocabulary
    assert (words.size, words.sample, words.typed) == (41, (), True)
    assert ("padding", 0, "0") in words.special


def test_values_that_json_does_not_know_become_text(build_model: Callable[..., Model]) -> None:
    model = dataclasses.replace(
        build_model(), config={"a": float("inf"), "b": (1, {2: None}), "c": torch.float16}
    )
    found = inspect(model, report=False).to_dict()["config"]
    assert found == {"a": "inf", "b": [1, {"2": None}], "c": "torch.float16"}
