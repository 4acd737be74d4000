"""Models of one's own open with names=, and are then exactly the modules that were saved.

Attention and logits of the plans, of blocks with their norms before, and of models by hand are
held by the rows of `own_models.py`.
"""

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


def test_a_module_under_mapped_names_is_proved_and_says_what_is_a_guess(tmp_path: Path) -> None:
    path, hand, gpt = tmp_path / "mine.pt", Translator(), Gpt()
    chosen = {"heads", "norm", "activation", "norm_eps", "embedding_scale", "positions"}
    chosen |= {"pad_id", "bos_id", "eos_id", "max_positions", "logit_scale"}
    written = {"norm", "activation", "embedding_scale", "mask_fill", "norm_kind"}
    plain = PLANS["the journey: no position buffer, scaled"]
    cases = [
        (name, Own(plan), target_names(plan), {"pad_id": -1, "heads": H, **plan.words}, set(),
         set(plan.words) | {"heads"})
        for name, plan in PLANS.items()
    ]  # fmt: skip
    cases += [
        ("no words", Own(plain), target_names(plain), {}, chosen,
         {"d_model", "encoder_layers", "output_bias", "score"}),
        ("a translator", hand, hand_names(hand), {"heads": H}, written,
         {"positions", "final_norm", "d_ff", "heads"}),
        ("a GPT", gpt, gpt_names(gpt), {"heads": H}, set(), {"heads"}),
    ]  # fmt: skip
    for name, own, table, words, guessed, known in cases:
        torch.save(own.state_dict(), path)
        model = tv.load(path, names=table, device="cpu", **words)
        assert guessed <= set(model.guesses) and known.isdisjoint(model.guesses), name
        assert sum(p.numel() for p in own.parameters()) == model.parameters, name
        assert any("weights go by the names that names= gives" in n for n in model.notes), name
        assert any("--set heads=" in note for note in model.notes) == ("heads" not in words), name
        assert model.kind == ("decoder-only" if own is gpt else "encoder-decoder"), name
        trace = tv.trace(
            model, SOURCE, target=None if own is gpt else TARGET, check="heads" in words
        )
        assert "heads" not in words or trace.report.status == "green", name


def test_an_encoder_of_ones_own_is_the_saved_module(tmp_path: Path) -> None:
    for rows, how, torch_layers, names, words, gives in (
        (17, "causal", False, HAND, PRE | {"kind": "decoder-only"}, "words"),
        (17, "causal", True, TORCH, POST, "words"),
        (4, "mean", False, HAND, PRE | {"pooling": "mean"}, "classes"),
        (4, "first", True, TORCH, POST | {"pooling": "first"}, "classes"),
        (4, "tokens", True, TORCH, POST | {"pooling": "tokens"}, "tags"),
        (17, "tokens", True, TORCH, POST | {"kind": "encoder-only"}, "words"),
    ):
        case = (rows, how, torch_layers)
        torch.manual_seed(5)
        own = Blocks(rows, how == "causal", how, torch_layers)
        torch.save(own.state_dict(), tmp_path / "mine.pt")
        model = tv.load(tmp_path / "mine.pt", names=names, heads=H, device="cpu", **words)
        with torch.inference_mode(), attended(own) as seen:
            logits = own(torch.tensor([SOURCE]))[0]
        trace = tv.trace(model, SOURCE)
        assert model.gives == gives and trace.report.status == "green", (case, trace.report)
        assert abs(trace.logits - logits.numpy()).max() < 1e-5, case
        maps = trace.attention("decoder" if how == "causal" else "encoder")
        expected = torch.cat([weights for _, weights in seen]).numpy()
        assert maps.shape == expected.shape and abs(maps - expected).max() < 1e-5, case
        assert ("kind" in model.guesses) == (rows == 17 and "kind" not in words), case


def test_what_is_wrong_in_a_table_is_named(tmp_path: Path) -> None:
    plan = PLANS["the journey: no position buffer, scaled"]
    path, right = tmp_path / "mine.pt", target_names(plan)
    torch.save({f"module.{k}": v for k, v in Own(plan).state_dict().items()}, path)
    two = {"encoder_emb.weight": "x.weight", "decoder_emb.weight": "x.weight"}
    every = {"core.": None, "encoder_emb.": None, "decoder_emb.": None, "fc_out.": None}
    layout = {"layout": "torch_tutorial_seq2seq"}
    for said, names, words in (
        (r"maps 'encoder_em.weight', .* \(the nearest name is encoder_e",
         {"encoder_em.weight": "x"}, {}),
        (r"maps 'coree\.', and mine.pt has no such weight", {"coree.": "transformer."}, {}),
        ("both encoder_emb.weight and decoder_emb.weight are called x.weight", two, {}),
        ("a prefix needs a prefix ending in a dot", {"core.": "transformer"}, {}),
        ("must not be empty or end with a dot", {"fc_out.weight": "generator."}, {}),
        ("both must be names, or the second null", {"fc_out.weight": 3}, {}),
        ("leaves out every weight", every, {}),
        ("takes a mapping of the file's names", [1], {}),
        ("There is no file 'nowhere.json'", "nowhere.json", {}),
        ("not known under the names that names= gives", {"fc_out.": "generator."}, {}),
        (r"an encoder or a decoder.*or correct names=", {"fc_out.": "generator."}, layout),
    ):  # fmt: skip
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


def test_a_classifier_written_by_hand_pools_as_it_is_asked(tmp_path: Path) -> None:
    """The witness pools and projects the encoder's states by hand."""
    torch.manual_seed(9)
    own, path = Translator().encoder, tmp_path / "own.pt"
    head = torch.nn.Linear(own.tok_embedding.embedding_dim, 3)
    parts = torch.nn.ModuleDict({"encoder": own, "head": head})
    torch.save(parts.state_dict(), path)
    names = tv.propose_names(path).names
    states = own(torch.tensor([SOURCE]), None)[0]
    words = {"heads": H, "embedding_scale": ROOT, "device": "cpu"}
    wanted = {"mean": states.mean(0), "first": states[0], "last": states[-1], "tokens": states}
    for how, pooled in wanted.items():
        model = tv.load(path, names=names, pooling=how, **words)
        assert model.gives == ("tags" if how == "tokens" else "classes")
        logits = tv.trace(model, SOURCE, check=how == "mean").logits
        assert abs(logits - head(pooled).detach().numpy()).max() < 1e-5, how
    assert "pooling" in tv.load(path, names=names, device="cpu").guesses
