"""Models of one's own open with names=, and are then exactly the modules that were saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.files.reading import CheckpointError

from .own_models import (
    HAND,
    PLANS,
    POST,
    PRE,
    ROOT,
    TORCH,
    Blocks,
    Gpt,
    H,
    Own,
    Translator,
    attended,
    gpt_names,
    hand_names,
    target_names,
)

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")
SOURCE, TARGET = [4, 9, 2, 16, 3, 8], [2, 7, 11, 5]


@pytest.mark.parametrize("case", PLANS)
def test_the_opened_model_is_the_saved_module(case: str, tmp_path: Path) -> None:
    plan = PLANS[case]
    torch.manual_seed(3)
    own = Own(plan)
    torch.save(own.state_dict(), tmp_path / "mine.pt")
    words = {"heads": H, "pad_id": -1, **plan.words}
    model = tv.load(tmp_path / "mine.pt", names=target_names(plan), device="cpu", **words)
    with torch.inference_mode(), attended(own) as seen:
        logits = own(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    trace = tv.trace(model, SOURCE, target=TARGET)
    assert abs(trace.logits - logits.numpy()).max() < 1e-5
    assert trace.report.status == "green"
    cross = [weights[0] for name, weights in seen if "multihead_attn" in name]
    for layer, weights in enumerate(cross):
        assert abs(trace.attention("cross", layer=layer) - weights.numpy()).max() < 1e-5
    assert len(cross) == 2
    assert {w for w in words if w != "pad_id"}.isdisjoint(model.guesses)
    assert sum(p.numel() for p in own.parameters()) == model.parameters


def test_what_the_layout_always_does_is_a_guess_under_mapped_names(tmp_path: Path) -> None:
    plan = PLANS["the journey: no position buffer, scaled"]
    torch.save(Own(plan).state_dict(), tmp_path / "mine.pt")
    model = tv.load(tmp_path / "mine.pt", names=target_names(plan), device="cpu")
    assert {"heads", "norm", "activation", "norm_eps", "embedding_scale", "positions"} <= set(
        model.guesses
    )
    assert {"pad_id", "bos_id", "eos_id", "max_positions", "logit_scale"} <= set(model.guesses)
    assert {"d_model", "encoder_layers", "output_bias", "score"}.isdisjoint(model.guesses)
    assert any("--set heads=" in note for note in model.notes), model.notes
    assert any("weights go by the names that names= gives" in note for note in model.notes)


@pytest.mark.parametrize(
    ("rows", "how", "torch_layers", "names", "words", "gives"),
    [
        (17, "causal", False, HAND, PRE | {"kind": "decoder-only"}, "words"),
        (17, "causal", True, TORCH, POST, "words"),
        (4, "mean", False, HAND, PRE | {"pooling": "mean"}, "classes"),
        (4, "first", True, TORCH, POST | {"pooling": "first"}, "classes"),
        (4, "tokens", True, TORCH, POST | {"pooling": "tokens"}, "tags"),
        (17, "tokens", True, TORCH, POST | {"kind": "encoder-only"}, "words"),
    ],
)
def test_an_encoder_of_ones_own_is_the_saved_module(
    rows, how, torch_layers, names, words, gives, tmp_path
) -> None:
    torch.manual_seed(5)
    own = Blocks(rows, how == "causal", how, torch_layers)
    torch.save(own.state_dict(), tmp_path / "mine.pt")
    model = tv.load(tmp_path / "mine.pt", names=names, heads=H, device="cpu", **words)
    with torch.inference_mode(), attended(own) as seen:
        logits = own(torch.tensor([SOURCE]))[0]
    trace = tv.trace(model, SOURCE)
    assert model.gives == gives and trace.report.status == "green", trace.report
    assert abs(trace.logits - logits.numpy()).max() < 1e-5
    maps = trace.attention("decoder" if how == "causal" else "encoder")
    for layer, (_, weights) in enumerate(seen):
        assert abs(maps[layer] - weights[0].numpy()).max() < 1e-5
    assert len(seen) == 2 == len(maps)
    assert ("kind" in model.guesses) == (rows == 17 and "kind" not in words)


def test_attention_written_by_hand_is_the_saved_module(tmp_path: Path) -> None:
    torch.manual_seed(7)
    own, gpt = Translator(), Gpt()
    torch.save(own.state_dict(), tmp_path / "own.pt")
    model = tv.load(tmp_path / "own.pt", names=hand_names(own), heads=H, device="cpu")
    with torch.inference_mode():
        logits = own(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    trace = tv.trace(model, SOURCE, target=TARGET)
    assert model.layout == "reference" and trace.report.status == "green"
    assert abs(trace.logits - logits.numpy()).max() < 1e-5
    for layer, part in enumerate(own.decoder.layers):
        seen = part.encoder_attention.seen[0].numpy()
        assert abs(trace.attention("cross", layer=layer) - seen).max() < 1e-5
    assert {"norm", "activation", "embedding_scale", "mask_fill", "norm_kind"} <= set(model.guesses)
    assert {"positions", "final_norm", "d_ff", "heads"}.isdisjoint(model.guesses)

    torch.save(gpt.state_dict(), tmp_path / "gpt.pt")
    names = gpt_names(gpt)
    model = tv.load(tmp_path / "gpt.pt", names=names, heads=H, device="cpu")
    with torch.inference_mode():
        logits = gpt(torch.tensor([SOURCE]))[0]
    trace = tv.trace(model, SOURCE)
    assert model.kind == "decoder-only" and trace.report.status == "green"
    assert abs(trace.logits - logits.numpy()).max() < 1e-5
    for layer, block in enumerate(gpt.blocks):
        seen = block["sa"].seen[0].numpy()
        assert abs(trace.attention("decoder", layer=layer) - seen).max() < 1e-5


def test_what_is_wrong_in_a_table_is_named(tmp_path: Path) -> None:
    plan = PLANS["the journey: no position buffer, scaled"]
    path, right = tmp_path / "mine.pt", target_names(plan)
    torch.save({f"module.{k}": v for k, v in Own(plan).state_dict().items()}, path)
    two = {"encoder_emb.weight": "x.weight", "decoder_emb.weight": "x.weight"}
    every = {"core.": None, "encoder_emb.": None, "decoder_emb.": None, "fc_out.": None}
    cases = {
        r"maps 'encoder_em.weight', .* \(the nearest name is encoder_e": {"encoder_em.weight": "x"},
        r"maps 'coree\.', and mine.pt has no such weight": {"coree.": "transformer."},
        "both encoder_emb.weight and decoder_emb.weight are called x.weight": two,
        "a prefix needs a prefix ending in a dot": {"core.": "transformer"},
        "must not be empty or end with a dot": {"fc_out.weight": "generator."},
        "both must be names, or the second null": {"fc_out.weight": 3},
        "leaves out every weight": every,
        "takes a mapping of the file's names": [1],
        "There is no file 'nowhere.json'": "nowhere.json",
        "not known under the names that names= gives": {"fc_out.": "generator."},
        r"an encoder or a decoder.*or correct names=": (
            "layout",
            {"fc_out.": "generator."},
        ),
    }
    for said, names in cases.items():
        words = {}
        if isinstance(names, tuple):
            words, names = {"layout": "torch_tutorial_seq2seq"}, names[1]
        with pytest.raises(CheckpointError, match=said):
            tv.load(path, names=names, **words)
    (tmp_path / "names.json").write_text(json.dumps({"of another file": "x"}))
    with pytest.raises(CheckpointError, match=r"layout of mine\.pt is not known; "):
        tv.load(path)
    wrapped = {f"module.{key}": name for key, name in right.items()}  # as the file has them
    assert tv.load(path, names=wrapped, heads=H, device="cpu").layout == "torch_tutorial_seq2seq"
    with pytest.raises(CheckpointError, match=r"names is for checkpoints on disk.*Leave names="):
        tv.load(torch.nn.Linear(2, 2), names=right)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="folder of a Hugging Face model"):
        tv.load(path, names=right)


def test_a_classifier_written_by_hand_pools_what_it_is_told(tmp_path: Path) -> None:
    """Its witness: the states of the encoder, pooled and projected by hand."""
    torch.manual_seed(9)
    own = Translator().encoder
    head = torch.nn.Linear(own.tok_embedding.embedding_dim, 3)
    state = {f"encoder.{k}": v for k, v in own.state_dict().items()}
    torch.save(state | {f"head.{k}": v for k, v in head.state_dict().items()}, tmp_path / "own.pt")
    names = tv.propose_names(tmp_path / "own.pt").names
    states = own(torch.tensor([SOURCE]), None)[0]
    words = {"heads": H, "embedding_scale": ROOT, "device": "cpu"}
    wanted = {"mean": states.mean(0), "first": states[0], "last": states[-1], "tokens": states}
    for how, pooled in wanted.items():
        model = tv.load(tmp_path / "own.pt", names=names, pooling=how, **words)
        assert model.gives == ("tags" if how == "tokens" else "classes")
        logits = tv.trace(model, SOURCE, check=how == "mean").logits
        assert abs(logits - head(pooled).detach().numpy()).max() < 1e-5
    assert "pooling" in tv.load(tmp_path / "own.pt", names=names, device="cpu").guesses
