"""PyTorch's own stacks: exact, with what their files do not say marked as a guess."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.files.reading import CheckpointError
from transformer_viz.checkpoints.layouts import torch_core
from transformer_viz.checkpoints.loader import discover, layout_of

from .rows import LOGITS
from .torch_core import LAYERS, VARIANTS, D, E, F, H, Variant, inputs, model_of, rows, state

FULL, BEFORE = VARIANTS[:2]


def vectors(tokens: int, width: int = D, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(tokens, width)).astype(np.float32)


def test_it_computes_what_pytorch_computes():
    assert not [row for row in rows() if not row.passed]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("variant", VARIANTS[:4], ids=lambda v: v.name)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_pytorchs_own_module_gives_the_same(variant: Variant, batch_first: bool, tmp_path: Path):
    source, target, _ = inputs(variant)[""]
    theirs = nn.Transformer(
        D,
        H,
        LAYERS,
        LAYERS,
        F,
        activation=variant.words.get("activation", "relu"),
        norm_first=variant.pre,
        batch_first=batch_first,
        bias=variant.bias,
    ).eval()
    theirs.load_state_dict(state(variant))
    later = nn.Transformer.generate_square_subsequent_mask(4)
    with torch.inference_mode():
        ours = model_of(variant, tmp_path).calls.forward(source, target)
        if batch_first:
            expected = theirs(source, target, tgt_mask=later)
        else:
            expected = theirs(source.transpose(0, 1), target.transpose(0, 1), tgt_mask=later)
            expected = expected.transpose(0, 1)
    assert (ours - expected).abs().max() <= LOGITS


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: v.name)
def test_every_kind_of_core_is_recognised_and_traced(variant: Variant, tmp_path: Path):
    model_of(variant, tmp_path)
    found, words = discover(tmp_path / "core.pt", {"heads": H, **variant.words})
    assert layout_of(found).NAME == "torch_transformer"
    model = tv.load(found.path, **words)
    assert (model.takes, model.gives) == ("vectors", "vectors")
    target = None if variant.decoder is None else vectors(4)
    trace = tv.trace(model, vectors(5, variant.memory), target)
    assert trace.report.status == "green" and trace.logits is None
    wanted = {"encoder": variant.encoder, "decoder": variant.decoder, "cross": variant.decoder}
    assert set(trace.maps) == {name for name, stack in wanted.items() if stack is not None}
    assert trace.output.shape == (5 if target is None else 4, D)
    with torch.inference_mode():
        given = (vectors(5, variant.memory), target)
        again = model.calls.forward(*(None if x is None else torch.tensor(x)[None] for x in given))
    assert np.abs(trace.output - again[0].numpy()).max() <= LOGITS


def test_a_decoder_sees_nothing_ahead(tmp_path: Path):
    trace = tv.trace(model_of(FULL, tmp_path), vectors(5), vectors(4))
    assert not np.triu(trace.attention("decoder"), 1).any()
    assert (trace.attention("encoder") > 0).all() and (trace.attention("cross") > 0).all()


def test_what_no_file_says_is_a_guess(tmp_path: Path):
    model_of(FULL, tmp_path)
    model = tv.load(tmp_path / "core.pt")
    assert set(model.guesses) == {"heads", "norm", "activation", "norm_eps"}
    assert model.config["heads"] == 5 and "guess" in model.notes[0] and "norm" in model.notes[0]
    words = {"heads": 3, "norm": "pre"}
    (tmp_path / "config.json").write_text(json.dumps(words))
    model = tv.load(tmp_path / "core.pt", norm="post")
    assert [model.config[word] for word in words] == [3, "post"]
    assert [model.provenance[word] for word in words] == ["sidecar", "override"]
    assert model.provenance["encoder_layers"] == "shapes" and model.notes == ()
    assert (model.config["encoder_layers"], model.config["decoder_layers"]) == (LAYERS, LAYERS)


def test_a_last_norm_given_ready_made_keeps_its_own_eps(tmp_path: Path):
    alone = Variant("", encoder="", decoder=None, words={"norm_eps": 0.03})
    module = model_of(alone, tmp_path).module
    assert module.norm.eps == 1e-5 and module.layers[1].norm2.eps == 0.03
    whole = model_of(Variant("", words={"norm_eps": 0.03}), tmp_path).module
    assert whole.encoder.norm.eps == whole.decoder.norm.eps == 0.03


@pytest.mark.parametrize(
    ("change", "overrides", "said"),
    [
        ({}, {"heads": 4}, "15 in core.pt cannot be shared by 4 heads.*one of 1, 3, 5, 15"),
        ({}, {"heads": 0}, "cannot be shared by 0 heads"),
        ({}, {"heads": "5"}, "heads needs a whole number"),
        ({}, {"heads": 5, "norm": "query_only"}, "no norm 'query_only'.*post, pre"),
        ({}, {"heads": 5, "activation": "mish"}, "no activation 'mish'.*relu, gelu"),
        ({}, {"heads": 5, "norm_eps": "small"}, "norm_eps needs a number"),
        ({}, {"nhead": 5}, "no word 'nhead' to override; known are heads"),
        (
            {"decoder.layers.1.norm3.bias": None},
            {"heads": 5},
            "lacks the weight decoder",
        ),
        ({"encoder.layers.1.linear1.bias": torch.zeros(4)}, {"heads": 5}, r"is \[4\] in core.pt"),
        ({"encoder.layers.0.linear1.weight": None}, {"heads": 5}, "linear1.weight .* is missing"),
        (
            {"encoder.layers.0.self_attn.in_proj_bias": None},
            {"heads": 5},
            "lacks the weight encoder.layers.0.self_attn.in_proj_bias",
        ),
        (
            {"encoder.norm.bias": torch.full((D,), torch.inf)},
            {"heads": 5},
            "norm.bias.*NaN",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change, overrides, said, tmp_path: Path):
    tensors = {name: t for name, t in (state(FULL) | change).items() if t is not None}
    path = tmp_path / "core.pt"
    torch.save(tensors, path)
    with pytest.raises(CheckpointError, match=said):
        torch_core.open(Candidate(path, {}), None, overrides)


@pytest.mark.parametrize("layout", ["timm", "torch_transformer", "torch_tutorial_seq2seq"])
def test_a_layout_that_was_named_and_is_another_is_refused(layout: str, tmp_path: Path):
    torch.save({"a.weight": torch.zeros(2, 3), "b": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match=r"other\.pt"):
        tv.load(tmp_path / "other.pt", layout=layout)


def test_a_stack_of_encoder_layers_is_an_encoder_whatever_its_field(tmp_path: Path):
    alone = Variant("", encoder="", decoder=None)
    held = {f"decoder.{name}": tensor for name, tensor in state(alone).items()}
    torch.save(held, tmp_path / "gpt.pt")
    model = tv.load(tmp_path / "gpt.pt", heads=H)
    given = inputs(alone)[""][0]
    with torch.inference_mode():
        expected = model_of(alone, tmp_path).calls.forward(given)
        assert (model.calls.forward(given) - expected).abs().max() <= LOGITS
    torch.save(
        held | {n.replace("decoder", "encoder"): t for n, t in held.items()}, tmp_path / "two.pt"
    )
    with pytest.raises(CheckpointError, match="it has 2 stacks of one kind"):
        tv.load(tmp_path / "two.pt")


def test_more_than_a_core_needs_its_own_code(tmp_path: Path):
    path = tmp_path / "language.pt"
    torch.save(state(VARIANTS[5]) | {"embedding.weight": torch.zeros(7, D)}, path)
    with pytest.raises(CheckpointError, match=r"torch_transformer comes closest.*embedding"):
        tv.load(path)


def test_a_core_that_was_the_only_field_of_a_module_opens(tmp_path: Path):
    held = {f"net.transformer.{name}": tensor for name, tensor in state(FULL).items()}
    torch.save(held, tmp_path / "wrapped.pt")
    source, target, _ = inputs(FULL)[""]
    with torch.inference_mode():
        wrapped = tv.load(tmp_path / "wrapped.pt", heads=H).calls.forward(source, target)
        expected = model_of(FULL, tmp_path).calls.forward(source, target)
    assert (wrapped - expected).abs().max() <= LOGITS


def test_vectors_of_another_width_or_no_target_are_refused(tmp_path: Path):
    model = model_of(FULL, tmp_path)
    with pytest.raises(ValueError, match="vectors of 25 numbers and this model reads 15"):
        tv.trace(model, vectors(5, E), vectors(4))
    with pytest.raises(ValueError, match="give the target's vectors too"):
        tv.trace(model, vectors(5))
    with pytest.raises(ValueError, match="reads vectors"):
        tv.trace(model, "A sentence.")
    alone = model_of(Variant("", encoder="", decoder=None), tmp_path)
    with pytest.raises(ValueError, match="'core' has no decoder; leave the target out"):
        tv.trace(alone, vectors(5), vectors(4))
