"""Models of one's own open with names=, and names are proposed right for models of many styles.

Attention and logits of the plans, of blocks with their norms before, and of models by hand are
held by the rows of `own_models.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.files.reading import CheckpointError
from transformer_viz.checkpoints.naming.name_proposals import NameProposal, layout_names, propose
from transformer_viz.checkpoints.naming.weight_roles import find_roles

from .name_styles import STYLES, file_of
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
#: One of each structure; a proof takes a second.
PROVED = (
    "the journey: no position buffer, scaled",
    "a stored table [position, 1, d], sequence first, pre-norm, gelu",
    "one embedding, learned positions, stacks apart",
    "a translator",
    "a GPT",
)


@pytest.mark.slow
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
        if name in PROVED:
            trace = tv.trace(model, SOURCE, target=None if own is gpt else TARGET)
            assert trace.report.status == "green", name


@pytest.mark.slow
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


# ---- proposals ----


def test_most_names_are_proposed_right_in_every_style(tmp_path: Path) -> None:
    """Measured on all styles together: 99 of 100, and nothing wrong that is called certain."""
    right = whole = 0
    for name in STYLES:
        torch.manual_seed(1)
        tensors, table, layout = file_of(name)
        torch.save(tensors, tmp_path / "mine.pt")
        found = propose(Candidate(tmp_path / "mine.pt", {}))
        assert found.layout == layout, (name, found.layout, found.missing, found.open)
        wrong = {row.key: row.proposed for row in found.rows if row.proposed != table[row.key]}
        right, whole = right + len(table) - len(wrong), whole + len(table)
        sure = [row.key for row in found.rows if row.key in wrong and row.why == "name"]
        assert not sure, (name, sure)
    assert right >= 0.99 * whole, f"{right} of {whole}"


def test_a_proposal_opens_the_file_and_nothing_is_applied_silently(tmp_path: Path) -> None:
    own = Own(PLANS["the journey: no position buffer, scaled"])
    torch.save(own.state_dict(), tmp_path / "mine.pt")
    with pytest.raises(CheckpointError, match=r"transformer-viz names mine\.pt --out names\.json"):
        tv.load(tmp_path / "mine.pt")
    with pytest.raises(CheckpointError, match=r"map its name \(`transformer-viz names mine\.pt`\)"):
        tv.load(tmp_path / "mine.pt", layout="torch_tutorial_seq2seq")
    found = tv.propose_names(tmp_path / "mine.pt")
    assert not found.open and not found.missing
    assert NameProposal.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    model = tv.load(tmp_path / "mine.pt", names=found.names, device="cpu", heads=H)
    assert model.layout == found.layout == "torch_tutorial_seq2seq"
    (tmp_path / "names.json").write_text(json.dumps(found.names))
    beside = tv.load(tmp_path / "mine.pt", device="cpu", heads=H)
    assert any("names.json beside the file gives" in note for note in beside.notes)
    assert beside.guesses == model.guesses
    again = tv.load(tmp_path / "mine.pt", names=tmp_path / "names.json", device="cpu", heads=H)
    for one, other in zip(model.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(one, other)


def test_what_was_computed_is_left_out_and_what_has_no_name_is_said(tmp_path: Path) -> None:
    tensors, table, _ = file_of("a GPT")
    tensors["blocks.0.sa.tril"] = torch.ones(24, 24).tril()
    tensors["blocks.1.sa.bias_mask"] = torch.full((1, 1, 24, 24), float("-inf")).triu(1)
    tensors["strange"] = torch.randn(3)
    torch.save(tensors, tmp_path / "mine.pt")
    found = propose(Candidate(tmp_path / "mine.pt", {}))
    left = {row.key for row in found.rows if row.computed}
    assert left == {"blocks.0.sa.tril", "blocks.1.sa.bias_mask"}
    assert found.open == ("strange",) and found.names == table | dict.fromkeys(left)
    model = tv.load(tmp_path / "mine.pt", names=found.names | {"strange": None}, device="cpu")
    assert any("leaves out blocks.0.sa.tril" in note for note in model.notes)


def test_names_of_any_layout_can_be_asked_for(tmp_path: Path) -> None:
    for layout in ("nanogpt", "labml", "annotated_transformer"):
        style = "a GPT" if layout == "nanogpt" else "lists of projections"
        torch.save(file_of(style)[0], tmp_path / "mine.pt")
        found = tv.propose_names(tmp_path / "mine.pt", layout)
        assert found.layout == layout
        if layout != "nanogpt":  # which has one matrix for queries, keys and values
            assert not found.missing, layout
            model = tv.load(tmp_path / "mine.pt", names=found.names, heads=H, device="cpu")
            assert model.layout == layout and "norm" in model.guesses
    with pytest.raises(CheckpointError, match="not proposed for the layout 'x'; choose one of"):
        tv.propose_names(tmp_path / "mine.pt", "x")
    torch.save(torch.nn.LSTM(8, 8).state_dict(), tmp_path / "mine.pt")
    with pytest.raises(CheckpointError, match="no numbered layers with matrices of attention"):
        tv.propose_names(tmp_path / "mine.pt")
    name = f"transformer.encoder.layers.{10**9}.linear1.weight"
    words = {"layout": "torch_tutorial_seq2seq", "rows": [["a", [2, 2], name, "name"]]}
    found = NameProposal.from_dict(words | {"missing": []})
    assert name in layout_names(found) and len(layout_names(found)) < 100_000  # not every layer's


def test_positions_are_proposed_whatever_they_are_called(tmp_path: Path) -> None:
    """The last table of a stack without positions, also of more rows than there are words."""
    tensors, table, _ = file_of("a GPT")
    words, places = "token_embedding_table.weight", "position_embedding_table.weight"
    rows, width = tensors[words].shape
    kept = {key: tensor for key, tensor in tensors.items() if key not in (words, places)}
    torch.manual_seed(2)
    for name, count in (("seats", rows // 2), ("when.weight", 2 * rows)):
        own = {name: torch.randn(count, width), "glyphs.weight": tensors[words]}
        torch.save(own | kept, tmp_path / "m.pt")
        found = propose(Candidate(tmp_path / "m.pt", {}))
        assert found.names[name] == table[places], found.names
        assert found.names["glyphs.weight"] == table[words], found.names
        assert not found.open and not found.missing, name


def cells(layer: dict[str, tuple[int, ...]], **tables: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Return the tensors of two layers of such weights between tables and an output."""
    named = {f"cells.{n}.{name}": size for n in range(2) for name, size in layer.items()}
    named = {"table": (11, 8), **tables, **named, "say": (11, 8)}
    return {f"{name}.weight": torch.randn(size) for name, size in named.items()}


def test_a_projection_beside_the_others_is_the_output_of_attention() -> None:
    square, inner = (8, 8), {"up": (32, 8), "down": (8, 32)}
    apart = dict.fromkeys(("query", "key", "value", "merge"), square)
    both = {f"{block}_{piece}": square for block in ("self", "cross") for piece in "qkvz"}
    less = {"query": square, "key": square, "value": square, "one": square, "two": square}
    for layer, expected in (
        (apart | inner, {"merge": "self_attention.output"}),
        ({"qkv": (24, 8), "mix": square} | inner, {"mix": "self_attention.output"}),
        (both | inner, {f"{block}_z": f"{block}_attention.output" for block in ("self", "cross")}),
        (less, {"one": "feed_forward.inner", "two": "feed_forward.outer"}),
    ):
        of = find_roles(cells(layer)).of
        for name, role in expected.items():
            assert of[f"cells.1.{name}.weight"][0].endswith(f".layers.1.{role}.weight"), layer


def test_a_decoder_of_its_own_gets_no_special_tokens_that_no_file_names(tmp_path: Path) -> None:
    layer = dict.fromkeys(("query", "key", "value", "merge"), (8, 8))
    layer |= {"up": (32, 8), "down": (8, 32), "norm_a": (8,), "norm_b": (8,)}
    torch.save(cells(layer, places=(9, 8)), tmp_path / "mine.pt")
    names = tv.propose_names(tmp_path / "mine.pt").names
    model = tv.load(tmp_path / "mine.pt", names=names, device="cpu", heads=2)
    assert model.kind == "decoder-only" and {"bos_id", "eos_id"} <= set(model.guesses)
    assert model.config["bos_id"] == model.config["eos_id"] == -1 and not model.end_ids
