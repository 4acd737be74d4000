"""PyTorch's own stacks and the translator of its tutorial: recognised, guesses marked, or refused.

Their numbers are held by the rows of `torch_core.py` and `torch_tutorial.py`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import transformer_viz as tv
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.files.reading import CheckpointError
from transformer_viz.checkpoints.layouts import torch_core, torch_tutorial
from transformer_viz.checkpoints.loader import discover, layout_of

from . import torch_tutorial as tutorial
from .rows import LOGITS
from .torch_core import LAYERS, VARIANTS, D, E, H, Variant, inputs, model_of, state

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")
FULL = VARIANTS[0]
ALONE = Variant("", encoder="", decoder=None)


def vectors(tokens: int, width: int = D) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(tokens, width)).astype(np.float32)


def close(found: Tensor, expected: Tensor) -> bool:
    return float((found - expected).detach().abs().max()) <= LOGITS


@pytest.mark.slow
def test_every_kind_of_core_is_recognised_and_traced(tmp_path: Path) -> None:
    for variant in VARIANTS:
        model_of(variant, tmp_path)
        found, words = discover(tmp_path / "core.pt", {"heads": H, **variant.words})
        assert layout_of(found).NAME == "torch_transformer", variant.name
        model = tv.load(found.path, **words)
        assert (model.takes, model.gives) == ("vectors", "vectors"), variant.name
        given = vectors(5, variant.memory), None if variant.decoder is None else vectors(4)
        trace = tv.trace(model, *given)
        assert trace.report.status == "green" and trace.logits is None, variant.name
        stacks = {"encoder": variant.encoder, "decoder": variant.decoder, "cross": variant.decoder}
        assert set(trace.maps) == {name for name, stack in stacks.items() if stack is not None}
        assert trace.output.shape == (5 if given[1] is None else 4, D), variant.name
        again = model.calls.forward(*(None if x is None else torch.tensor(x)[None] for x in given))
        assert close(torch.tensor(trace.output), again[0]), variant.name
    trace = tv.trace(model_of(FULL, tmp_path), vectors(5), vectors(4))
    assert not np.triu(trace.attention("decoder"), 1).any()
    assert (trace.attention("encoder") > 0).all() and (trace.attention("cross") > 0).all()


def test_what_no_file_states_is_a_guess(tmp_path: Path) -> None:
    model_of(FULL, tmp_path)
    model = tv.load(tmp_path / "core.pt")
    assert set(model.guesses) == {"heads", "norm", "activation", "norm_eps"}
    assert model.config["heads"] == 5 and "guess" in model.notes[0] and "norm" in model.notes[0]
    (tmp_path / "config.json").write_text(json.dumps({"heads": 3, "norm": "pre"}))
    model = tv.load(tmp_path / "core.pt", norm="post")
    assert (model.config["heads"], model.provenance["heads"]) == (3, "sidecar")
    assert (model.config["norm"], model.provenance["norm"]) == ("post", "override")
    assert model.provenance["encoder_layers"] == "shapes" and model.notes == ()
    assert (model.config["encoder_layers"], model.config["decoder_layers"]) == (LAYERS, LAYERS)
    (tmp_path / "config.json").unlink()

    path = tutorial.save(tmp_path)
    assert layout_of(discover(path, {})[0]).NAME == "torch_tutorial_seq2seq"
    model = tv.load(path)
    choices = {"norm", "activation", "norm_eps", "pad_id", "bos_id", "eos_id"}  # of its copies
    assert set(model.guesses) == {"heads", "d_k", "d_v"} | choices and model.config["heads"] == 5
    assert "vocabulary is not in its file" in model.notes[0] and "guess" in model.notes[1]
    assert (model.pad_id, model.bos_id, model.eos_id, model.max_tokens) == (1, 2, 3, 29)
    assert model.config["embedding_scale"] == math.sqrt(D) and model.config["norm"] == "post"
    other = tv.load(path, heads=3, pad_id=-1)
    assert (other.config["heads"], other.pad_id) == (3, None)
    assert set(other.guesses) == choices - {"pad_id"}


def test_a_last_norm_given_ready_made_keeps_its_own_eps(tmp_path: Path) -> None:
    words = {"norm_eps": 0.03}
    module = model_of(Variant("", encoder="", decoder=None, words=words), tmp_path).module
    assert module.norm.eps == 1e-5 and module.layers[1].norm2.eps == 0.03
    whole = model_of(Variant("", words=words), tmp_path).module
    assert whole.encoder.norm.eps == whole.decoder.norm.eps == 0.03


def test_cores_under_other_prefixes_open(tmp_path: Path) -> None:
    """A stack of encoder layers is an encoder under any field; a module around a core is none."""
    path = tmp_path / "field.pt"
    for variant, rename in (
        (ALONE, lambda name: f"decoder.{name}"),
        (FULL, lambda name: f"net.transformer.{name}"),
    ):
        torch.save({rename(name): tensor for name, tensor in state(variant).items()}, path)
        given = inputs(variant)[""][:2]
        expected = model_of(variant, tmp_path).calls.forward(*given)
        assert close(tv.load(path, heads=H).calls.forward(*given), expected), variant


@pytest.mark.slow
def test_position_tables_of_any_shape_and_name_are_the_same_model(tmp_path: Path) -> None:
    """Batch-first copies of the tutorial, and those that store no table."""
    own, stored, rows = "positional_encoding.pos_embedding", tutorial.table(), tutorial.P
    ids, copy = tutorial.inputs()["padding"], tmp_path / "copy.pt"
    wanted = tv.load(tutorial.save(tmp_path), heads=H).calls.forward(*ids)
    for name in (own, "pe", "positional_encoding.pe", "pos_encoder.pos_table.weight", None):
        for shape in ((rows, 1, D), (1, rows, D), (rows, D)):
            tensors = {key: t for key, t in tutorial.state().items() if key != own}
            torch.save(tensors | ({name: stored.reshape(shape)} if name else {}), copy)
            model = tv.load(copy, heads=H)
            assert close(model.calls.forward(*ids), wanted), (name, shape)
            assert ("positions" in model.guesses) == (name is None), (name, shape)
            assert (model.max_tokens == rows) == (name is not None), (name, shape)
    with pytest.raises(CheckpointError, match="needs a stored table"):
        tv.load(copy, positions="learned")
    with pytest.raises(CheckpointError, match="whose numbers are sinusoidal"):
        tv.load(tutorial.save(tmp_path), positions="sinusoidal_halves")


#: What is changed in a file (None leaves a weight out), the overrides, and what the error says.
Refused = list[tuple[dict[str, Any], dict[str, Any], str]]
CORE: Refused = [
    ({}, {"heads": 4}, "15 in core.pt cannot be shared by 4 heads.*one of 1, 3, 5, 15"),
    ({}, {"heads": 0}, "cannot be shared by 0 heads"),
    ({}, {"heads": "5"}, "heads needs a whole number"),
    ({}, {"norm": "query_only"}, "no norm 'query_only'.*post, pre"),
    ({}, {"activation": "mish"}, "no activation 'mish'.*relu, gelu"),
    ({}, {"norm_eps": "small"}, "norm_eps needs a number"),
    ({}, {"nhead": 5}, "no word 'nhead' to override; known are heads"),
    ({"decoder.layers.1.norm3.bias": None}, {}, "lacks the weight decoder"),
    ({"encoder.layers.1.linear1.bias": torch.zeros(4)}, {}, r"is \[4\] in core.pt"),
    ({"encoder.layers.0.linear1.weight": None}, {}, "linear1.weight .* is missing"),
    (
        {"encoder.layers.0.self_attn.in_proj_bias": None},
        {},
        "lacks the weight encoder.layers.0.self_attn.in_proj_bias",
    ),
    ({"encoder.norm.bias": torch.full((D,), torch.inf)}, {}, "norm.bias.*NaN"),
]
DECODER = "transformer.decoder.layers.0."
TUTORIAL: Refused = [
    ({}, {"heads": 4}, "heads"),
    ({}, {"layers": 4}, "no word 'layers'"),
    ({"generator.bias": None}, {}, "lacks the weight generator.bias"),
    ({f"{DECODER}multihead_attn.in_proj_weight": None}, {}, "an encoder or a decoder"),
    ({f"{DECODER}self_attn.in_proj_weight": None}, {}, "an encoder or a decoder"),
    ({"src_tok_emb.embedding.weight": torch.zeros(19)}, {}, r"\[19\]; expected \[token, d_model\]"),
    (
        {"positional_encoding.pos_embedding": torch.zeros(5, D + 1)},
        {},
        r"expected \[position, 1,",
    ),
]


def test_what_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "core.pt"
    for layout, held, cases in (
        (torch_core, state(FULL), CORE),
        (torch_tutorial, tutorial.state(), TUTORIAL),
    ):
        for change, overrides, said in cases:
            torch.save({n: t for n, t in (held | change).items() if t is not None}, path)
            with pytest.raises(CheckpointError, match=said):
                layout.open(Candidate(path, {}), None, {"heads": 5} | overrides)
    torch.save({"a.weight": torch.zeros(2, 3), "b": torch.zeros(1)}, path)
    for name in ("timm", "torch_transformer", "torch_tutorial_seq2seq"):
        with pytest.raises(CheckpointError, match=r"core\.pt"):
            tv.load(path, layout=name)
    two = {
        f"{side}.{name}": t for side in ("encoder", "decoder") for name, t in state(ALONE).items()
    }
    torch.save(two, path)
    with pytest.raises(CheckpointError, match="it has 2 stacks of one kind"):
        tv.load(path)
    torch.save(state(VARIANTS[5]) | {"embedding.weight": torch.zeros(7, D)}, path)
    with pytest.raises(CheckpointError, match=r"torch_transformer comes closest.*embedding"):
        tv.load(path)


def test_vectors_of_another_width_or_no_target_are_refused(tmp_path: Path) -> None:
    whole = model_of(FULL, tmp_path)
    for model, given, said in (
        (whole, (vectors(5, E), vectors(4)), "vectors of 25 numbers and this model reads 15"),
        (whole, (vectors(5),), "give the target's vectors too"),
        (whole, ("A sentence.",), "reads vectors"),
        (
            model_of(ALONE, tmp_path),
            (vectors(5), vectors(4)),
            "'core' has no decoder; leave the target out",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            tv.trace(model, *given)
