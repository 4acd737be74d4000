"""What inspect says of a model: words, parts, vocabulary, and the proof of the capture."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.parameter_counts import parameter_blocks
from transformer_viz.core.trace_parts import KernelRun
from transformer_viz.inference import inspection
from transformer_viz.inference.inspection import inspect, sample_source, sample_target
from transformer_viz.preprocessing.images import ImageReader
from transformer_viz.preprocessing.tokenizers import SentencePieceText

from ..conftest import TINY, make_model


def test_blocks_of_parameters(tiny_model):
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
    for kind, wanted in NAMES.items():
        model = dataclasses.replace(tiny_model, kind=kind, module=nested(wanted))
        blocks = parameter_blocks(model)
        found = {name: block.label for block in blocks for name in block.names}
        assert found == {f"{name}.weight": label for name, label in wanted.items()}
        assert sum(block.count for block in blocks) == 2 * len(wanted)


#: Names as code bases give them, and where they belong.
NAMES = {
    "decoder-only": {
        "transformer.wte": "embedding",
        "transformer.h.3.attn.c_attn": "decoder L3 self",
        "transformer.h.3.mlp.c_fc": "decoder L3 feed-forward",
        "transformer.h.3.ln_1": "decoder L3 norms",
        "transformer.ln_f": "norms",
        "lm_head": "output",
    },
    "encoder-only": {
        "bert.embeddings.word_embeddings": "embedding",
        "bert.encoder.layer.1.attention.self.query": "encoder L1 self",
        "bert.encoder.layer.1.attention.output.dense": "encoder L1 self",
        "bert.encoder.layer.1.attention.output.LayerNorm": "encoder L1 norms",
        "bert.encoder.layer.1.intermediate.dense": "encoder L1 feed-forward",
        "bert.encoder.layer.1.output.dense": "encoder L1 feed-forward",
        "blocks.5.attn.qkv": "encoder L5 self",
        "blocks.5.mlp.fc2": "encoder L5 feed-forward",
        "patch_embed.proj": "embedding",
        "cls_token": "embedding",
        "head": "output",
    },
    "encoder-decoder": {
        "model.decoder.layers.0.encoder_attn.k_proj": "decoder L0 cross",
        "shared": "embedding",
        "decoder.block.2.layer.1.EncDecAttention.q": "decoder L2 cross",
        "decoder.block.2.layer.2.DenseReluDense.wi": "decoder L2 feed-forward",
        "encoder.layer_stack.4.slf_attn.w_qs": "encoder L4 self",
        "decoder.layer_stack.4.enc_attn.w_qs": "decoder L4 cross",
        "encoder.layer_stack.4.pos_ffn.w_1": "encoder L4 feed-forward",
        "decoder.layers.1.multihead_attn.out_proj": "decoder L1 cross",
        "generator.0": "output",
    },
}


def nested(names: Iterable[str]) -> nn.Module:
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


def test_every_word_says_where_it_came_from_and_whether_it_is_a_guess(tiny_model):
    origins = {"heads": "convention", "d_k": "shapes", "norm": "override"}
    model = dataclasses.replace(tiny_model, provenance=tiny_model.provenance | origins)
    found = inspect(model, report=False)
    rows = {row.word: row for row in found.config}
    assert rows.keys() == model.config.keys()
    heads = rows["heads"]
    assert (heads.value, heads.origin, heads.guess) == (2, "convention", True)
    assert heads.meaning == "the usual choice" and not rows["norm"].guess
    assert rows["d_k"].meaning == "read off the shapes of the weights"
    assert found.guesses == ("heads",)
    odd = {"a": float("inf"), "b": (1, {2: None}), "c": torch.float16}  # JSON does not know these
    words = inspect(dataclasses.replace(model, config=odd), report=False).to_dict()["config"]
    assert words == {"a": "inf", "b": [1, {"2": None}], "c": "torch.float16"}


@pytest.mark.slow
def test_a_sample_runs_through_every_kind_of_model():
    for words in (
        {},
        {"encoder_layers": 0, "source_vocab": 0},
        {"decoder_layers": 0},
        {"decoder_layers": 0, "source_vocab": 0, "target_vocab": 0},
        {"max_positions": 3},
        {"source_vocab": 5, "target_vocab": 5},
    ):
        model = make_model(**words)
        found = inspect(model)
        assert found.status == "green", (words, found.findings)
        assert [finding.status for finding in found.findings] == ["green"] * 5
        encoder, decoder = (model.config[f"{stack}_layers"] for stack in ("encoder", "decoder"))
        assert len(found.sites) == encoder + decoder + min(encoder, 1) * decoder, words
        assert all(site.heads == 2 for site in found.sites) and found.norms, words
        own = tv.trace(model, sample_source(model), sample_target(model), check=False)
        assert tuple(own.positions) == found.positions, words
        assert json.loads(json.dumps(found.to_dict()))["report"] == "green", words


@pytest.mark.slow
def test_a_sample_is_the_same_each_time_and_fits_the_model(tiny_model, tiny_vocabulary):
    ids = sample_source(tiny_model)
    assert ids == sample_source(tiny_model)
    assert len(set(ids)) == len(ids) == 12 and max(ids) < 37
    assert not {tiny_model.pad_id, tiny_model.bos_id, tiny_model.eos_id} & set(ids)
    tokenizer, sizes = SentencePieceText(tiny_vocabulary), {"source_vocab": 331}
    for positions in ("learned", "sinusoidal"):
        model = make_model(max_positions=7, positions=positions, **sizes, target_vocab=331)
        model = dataclasses.replace(model, tokenizer=tokenizer)
        whole = tokenizer.source_ids(inspection.SENTENCE)
        assert sample_source(model) == whole[:7] != whole
        assert len(sample_target(model)) == 7
        assert inspect(model).status == "green", positions
    reader = ImageReader(height=8, width=6, channels=3, patch=(2, 2))
    model = dataclasses.replace(tiny_model, takes="image", image=reader, kind="encoder-only")
    picture = sample_source(model)
    assert (picture.shape, picture.dtype) == ((3, 8, 6), np.float32)
    assert np.array_equal(reader.pixels(picture), picture)
    assert (picture.min(), picture.max()) == (-1, 1)


MISSED = (KernelRun("_softmax", "layer", 4, 4, "missed"),)
#: Changes of a report, the finding that turns amber, and words of its sentence.
CHANGED: list[tuple[dict[str, Any], int, str]] = [
    ({"output_difference": 0.3}, 1, "changes the output by 3e-01"),
    ({"output_difference": None}, 1, "was not checked"),
    ({"row_sum_error": 0.01}, 2, "do not explain the output: rows"),
    ({"row_sum_error": float("nan")}, 2, "do not explain the output"),
    ({"rebuilt": {"cross L1": 0.2, "cross L0": 0.0}}, 2, r"output in cross L1: rows"),
    ({"rebuilt": {"cross L1": None}}, 2, "no block could be rebuilt"),
    ({"kernels": MISSED}, 3, "1 of 1 softmaxes that ran weigh something and are shown nowhere"),
    ({"kernels": ()}, 3, "What ran below the probe was not looked at"),
    ({"laws": {"cross L1": {"heads": 0.2}}}, 4, "on this input: cross L1."),
    ({"laws": {"cross L1": {"batch": None}}}, 4, "on this input: cross L1."),
    ({"unrecognised": ("a softmax",)}, 0, "1 place in the model could not be understood"),
    ({"rebuilt": {"cross L0": None, "cross L1": 1e-7}}, -1, ""),
]


@pytest.mark.slow
def test_a_report_that_does_not_agree_turns_amber(tiny_model, monkeypatch):
    run = tv.trace(tiny_model, sample_source(tiny_model), sample_target(tiny_model))
    for changes, place, sentence in CHANGED:
        altered = dataclasses.replace(run, report=dataclasses.replace(run.report, **changes))
        monkeypatch.setattr(inspection, "trace", lambda *_, altered=altered, **words: altered)
        found = inspect(tiny_model)
        assert found.status == ("green" if place < 0 else "amber"), changes
        statuses = [finding.status for finding in found.findings]
        assert statuses == ["amber" if n == place else "green" for n in range(5)], changes
        assert sentence in found.findings[place].sentence, changes
    counted = found.findings[2]  # of the last change: a block that could not be checked
    assert "(1 of 2 could not be checked)" in counted.sentence
    assert "cross L0: not checked" in counted.details


class Stubborn(nn.Module):
    """Takes nothing that a sample could be."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("not\nwith me")


def test_files_beside_the_weights_and_modules_that_no_sample_fits(tmp_path):
    found = inspect(tv.load(Stubborn()))
    assert (found.status, found.sites) == ("amber", ())
    assert "could not be run through this model: not with me" in found.findings[0].sentence
    assert inspect(tv.load(Stubborn()), report=False).status == "not run"
    card = "# Tiny <script>\n" + "line\n" * 60
    folder = put(tmp_path / "tiny", README__md=card, LICENSE="MIT License\n\nCopyright\n1\n2")
    found = inspect(tv.load(folder, device="cpu"), report=False)
    assert found.card.splitlines() == ["# Tiny <script>", *["line"] * 39]
    assert found.licence == "MIT License\n\nCopyright\n1"
    assert found.size == (folder / "weights.safetensors").stat().st_size
    assert (found.name, found.title, len(found.hash)) == ("tiny", "Tiny", 64)
    plain = inspect(tv.load(put(tmp_path / "bare"), device="cpu"), report=False)
    assert (plain.card, plain.licence) == ("", "")
    # and what was taken off the names of the weights
    model = make_model()
    state = {f"module.{name}": tensor for name, tensor in model.module.state_dict().items()}
    torch.save({"model": state}, tmp_path / "w.pt")
    (tmp_path / "config.json").write_text(json.dumps(model.config))
    found = inspect(tv.load(tmp_path / "w.pt", device="cpu"), report=False)
    assert found.unwrapped == (
        "the weights stood under 'model'",
        "the prefix 'module.' was taken off every name",
    )


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


@pytest.mark.shipped
def test_the_vocabulary_is_sampled(tiny_model):
    model = tv.load("en-de", device="cpu")
    found = inspect(model)
    pieces, vocabulary = model.tokenizer.pieces, found.vocabulary
    assert vocabulary.size == len(pieces) == model.config["target_vocab"]
    assert len(vocabulary.sample) == 24 and not vocabulary.typed
    assert (vocabulary.sample[0], vocabulary.sample[-1]) == (pieces[0], pieces[-1])
    assert ("end", 3, "</s>") in vocabulary.special
    assert found.status == "green" and found.card.startswith("# English to German")
    words = inspect(tiny_model, report=False).vocabulary  # typed ids have no pieces
    assert (words.size, words.sample, words.typed) == (41, (), True)
    assert ("padding", 0, "0") in words.special
