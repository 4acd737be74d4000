"""The translator of PyTorch's tutorial: exact, padding included, and ready to translate."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import transformer_viz as tv
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.files.reading import CheckpointError
from transformer_viz.checkpoints.layouts import torch_tutorial
from transformer_viz.checkpoints.loader import discover, layout_of

from .rows import LOGITS
from .torch_core import LAYERS, F
from .torch_tutorial import PAD, D, H, P, inputs, rows, save, state, table


def test_it_computes_what_the_tutorial_computes():
    assert not [row for row in rows() if not row.passed]


@pytest.mark.parametrize("case", inputs())
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_pytorchs_own_module_gives_the_same(case: str, tmp_path: Path):
    """The sequence first, the masks as the tutorial makes them."""
    source, target = inputs()[case]
    w = state()
    core = nn.Transformer(D, H, LAYERS, LAYERS, F).eval()
    core.load_state_dict(
        {n.removeprefix("transformer."): t for n, t in w.items() if n.startswith("transformer.")}
    )

    def embedded(side: str, ids: Tensor) -> Tensor:
        x = w[f"{side}_tok_emb.embedding.weight"][ids.T] * math.sqrt(D)
        return x + w["positional_encoding.pos_embedding"][: ids.shape[1]]

    with torch.inference_mode():
        states = core(
            embedded("src", source),
            embedded("tgt", target),
            torch.zeros(source.shape[1], source.shape[1], dtype=torch.bool),
            torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1),
            None,
            source == PAD,
            target == PAD,
            source == PAD,
        )
        expected = (states @ w["generator.weight"].T + w["generator.bias"]).transpose(0, 1)
        model = torch_tutorial.open(Candidate(save(tmp_path), {}), None, {"heads": H})
        assert (model.calls.forward(source, target) - expected).abs().max() <= LOGITS


def test_it_is_recognised_and_says_what_it_does_not_know(tmp_path: Path):
    path = save(tmp_path)
    assert layout_of(discover(path, {})[0]).NAME == "torch_tutorial_seq2seq"
    model = tv.load(path)
    others = {"norm", "activation", "norm_eps", "pad_id", "bos_id", "eos_id"}  # forks' arguments
    assert set(model.guesses) == {"heads", "d_k", "d_v"} | others and model.config["heads"] == 5
    assert "vocabulary is not in its file" in model.notes[0] and "guess" in model.notes[1]
    assert (model.pad_id, model.bos_id, model.eos_id, model.max_tokens) == (1, 2, 3, 29)
    assert model.config["embedding_scale"] == math.sqrt(D) and model.config["norm"] == "post"
    other = tv.load(path, heads=3, pad_id=-1)
    assert (other.config["heads"], other.pad_id) == (3, None)
    assert set(other.guesses) == others - {"pad_id"}


def test_one_forced_pass_is_decoding_step_by_step(tmp_path: Path):
    model = tv.load(save(tmp_path), heads=H)
    trace = tv.trace(model, [2, 9, 18, 6, 3], keep=("weights", "gradients"))
    assert trace.report.status == "green" and trace.maps == ("encoder", "decoder", "cross")
    rows_, memory = [2], model.calls.encode(torch.tensor([[2, 9, 18, 6, 3]]))
    for token in trace.produced.ids:
        with torch.inference_mode():
            logits = model.calls.decode(torch.tensor([rows_]), memory)[0, -1]
        assert int(logits.argmax()) == token
        rows_.append(token)
    assert tv.translate(model, "2 9 18 6 3")[0].ids[:5] == trace.produced.ids[:5]


def test_lines_of_one_batch_do_not_disturb_each_other(tmp_path: Path):
    model = tv.load(save(tmp_path), heads=H)
    (source, target), shorter = inputs()["padding"], 3
    with torch.inference_mode():
        together = model.calls.forward(source, target)[1, :2]
        alone = model.calls.forward(source[1:, :shorter], target[1:, :2])[0]
        memory = model.calls.encode(source)
        stepwise = model.calls.decode(target, memory, source != PAD)[1, :2]
    assert (together - alone).abs().max() <= LOGITS
    assert (together - stepwise).abs().max() <= LOGITS


def test_position_tables_of_any_shape_and_name_are_the_same_model(tmp_path: Path):
    """Batch-first copies of the tutorial, and those that store no table."""
    own, stored = "positional_encoding.pos_embedding", table()
    with torch.inference_mode():
        ids = inputs()["padding"]
        wanted = tv.load(save(tmp_path), heads=H).calls.forward(*ids)
    for name in (own, "pe", "positional_encoding.pe", "pos_encoder.pos_table.weight", None):
        for shape in ((P, 1, D), (1, P, D), (P, D)):
            tensors = {key: t for key, t in state().items() if key != own}
            if name is not None:
                tensors[name] = stored.reshape(shape)
            torch.save(tensors, tmp_path / "copy.pt")
            model = tv.load(tmp_path / "copy.pt", heads=H)
            with torch.inference_mode():
                found = model.calls.forward(*ids)
            assert (found - wanted).abs().max() <= LOGITS, (name, shape)
            assert ("positions" in model.guesses) == (name is None), (name, shape)
            assert (model.max_tokens == P) == (name is not None)
    with pytest.raises(CheckpointError, match="needs a stored table"):
        tv.load(tmp_path / "copy.pt", positions="learned")
    with pytest.raises(CheckpointError, match="whose numbers are sinusoidal"):
        tv.load(save(tmp_path), positions="sinusoidal_halves")


@pytest.mark.parametrize(
    ("change", "overrides", "said"),
    [
        ({}, {"heads": 4}, "heads"),
        ({}, {"layers": 4}, "no word 'layers'"),
        ({"generator.bias": None}, {"heads": 5}, "lacks the weight generator.bias"),
        (
            {"transformer.decoder.layers.0.multihead_attn.in_proj_weight": None},
            {},
            "an encoder or a decoder",
        ),
        (
            {"transformer.decoder.layers.0.self_attn.in_proj_weight": None},
            {},
            "an encoder or a decoder",
        ),
        (
            {"src_tok_emb.embedding.weight": torch.zeros(19)},
            {},
            r"\[19\]; expected \[token, d_model\]",
        ),
        (
            {"positional_encoding.pos_embedding": torch.zeros(5, D + 1)},
            {},
            r"expected \[position, 1,",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change, overrides, said, tmp_path: Path):
    tensors = {name: t for name, t in (state() | change).items() if t is not None}
    path = tmp_path / "translator.pth"
    torch.save(tensors, path)
    with pytest.raises(CheckpointError, match=said):
        torch_tutorial.open(Candidate(path, {}), None, overrides)
