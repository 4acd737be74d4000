"""labml's files: exact maps for every kind of them, what is guessed, and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError

from . import labml


def save(folder: Path, held: dict[str, torch.Tensor]) -> Path:
    torch.save(held, folder / "model.pt")
    return folder / "model.pt"


def test_attention_and_logits_are_those_of_the_code():
    assert not [row for row in labml.rows() if not row.passed]


def test_the_witness_gives_no_numbers_where_nothing_can_be_seen():
    given = labml.inputs(1)["rows that may see nothing"]
    maps, logits = labml.witness(labml.state({}), {}, *given, 1)
    assert maps[0][1].isnan().all() and logits[1].isnan().all() and not logits[0].isnan().any()


def test_an_encoder_decoder_tells_its_parts_by_its_weights(tmp_path):
    model = tv.load(save(tmp_path, labml.state({})), device="cpu")
    assert (model.layout, model.kind, model.max_tokens) == ("labml", "encoder-decoder", labml.P)
    assert (model.pad_id, model.bos_id, model.eos_id) == (None, None, None)
    assert model.guesses == ("heads", "d_k", "d_v", "activation")
    assert (model.config["positions"], model.provenance["positions"]) == ("sinusoidal", "file")
    assert model.provenance["gated"] == model.provenance["kind"] == "shapes"
    assert model.provenance.keys() == model.config.keys()
    with pytest.raises(ValueError, match="names no start token; load it with bos_id="):
        tv.translate(model, [4, 5])
    told = tv.load(save(tmp_path, labml.state({})), device="cpu", bos_id=2, eos_id=3, pad_id=1)
    assert (told.pad_id, told.bos_id, told.eos_id) == (1, 2, 3)
    assert tv.translate(told, [4, 5], max_tokens=3)[0].ids


def test_a_table_that_was_learned_counts_as_learned(tmp_path):
    fixed, learned = labml.state({}), labml.state({"positions": "learned"})
    one = tv.load(save(tmp_path, fixed), device="cpu")
    other = tv.load(save(tmp_path, learned), device="cpu")
    assert other.config["positions"] == "learned"
    assert other.parameters == one.parameters + 2 * labml.P * labml.D


def test_without_positions_nothing_limits_the_length_and_nothing_is_scaled(tmp_path):
    model = tv.load(save(tmp_path, labml.state({"positions": "none"})), device="cpu")
    assert model.max_tokens is None and model.config["embedding_scale"] == 1
    assert tv.trace(model, [4, 5, 6, 9, 7] * 120, [2, 3]).report.status == "green"


def test_one_stack_is_gpt_like_unless_the_user_says_that_it_is_masked(tmp_path):
    path = save(tmp_path, labml.state({"kind": "decoder-only"}))
    model = tv.load(path, device="cpu", heads=labml.H)
    assert (model.kind, model.config["kind"]) == ("decoder-only", "decoder-only")
    assert model.guesses == ("activation", "kind")
    assert any("say kind='encoder-only' if it is" in note for note in model.notes)
    assert model.config["source_vocab"] == 0 and model.config["target_vocab"] == labml.VT
    trace = tv.trace(model, [4, 9, 6])
    assert trace.report.status == "green"
    assert not trace.attention("decoder")[..., 0, 1:].any()
    said = [4, 9, 6]
    for _ in range(4):
        words = {"kind": "decoder-only"}
        logits = labml.witness(labml.state(words), words, torch.tensor([said]), None, None)[1]
        said.append(int(logits[0, -1].argmax()))
    assert tv.translate(model, [4, 9, 6], max_tokens=4)[0].ids == tuple(said[3:])
    masked = tv.load(path, device="cpu", kind="encoder-only")
    assert (masked.kind, masked.provenance["kind"]) == ("encoder-only", "override")
    assert tv.trace(masked, [4, 9, 6]).attention("encoder")[..., 0, 1:].all()
    with pytest.raises(CheckpointError, match="kind='gpt' does not fit a file with one stack"):
        tv.load(path, kind="gpt")
    torch.save(labml.state({}), path)
    with pytest.raises(CheckpointError, match="with two stacks; say encoder-decoder"):
        tv.load(path, kind="decoder-only")


def test_a_stack_without_generator_gives_states(tmp_path):
    held = labml.state({"kind": "encoder-only"})
    bare = {name: value for name, value in held.items() if not name.startswith("generator")}
    model = tv.load(save(tmp_path, bare), device="cpu")
    assert (model.kind, model.gives, model.provenance["kind"]) == (
        "encoder-only",
        "vectors",
        "shapes",
    )
    states = model.calls.forward(torch.tensor([[4, 9, 6]]))
    assert states.shape == (1, 3, labml.D)


BIAS = "encoder.layers.1.self_attn.key.linear.bias"
BAD = {
    "one bias of several": ({}, BIAS, None, r"lacks the weight {}\. Missing"),
    "value": (
        {"qk_bias": False},
        "encoder.layers.1.self_attn.value.linear.bias",
        None,
        r"lacks the weight {}\. Missing",
    ),
    "one gate of several": (
        {"gated": True},
        "decoder.layers.1.feed_forward.linear_v.weight",
        None,
        r"lacks the weight {}\. Missing",
    ),
    "shape": ({}, BIAS, torch.zeros(3), r"{} is \[3\] in model\.pt, .* makes it \[15\]"),
    "unknown": ({}, "encoder.layers.1.extra", torch.zeros(3), "has a weight {} that this model"),
    "no table": ({}, "tgt_embed.linear.weight", None, "lacks the weight {}"),
    "positions of one side": ({}, "tgt_embed.positional_encodings", None, "lacks the weight {}"),
    "positions lost": (
        {"kind": "decoder-only"},
        "src_embed.positional_encodings",
        None,
        "lacks the weight {}",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_do_not_fit_are_told_in_their_own_names(case, tmp_path):
    words, name, value, message = BAD[case]
    held = {key: old for key, old in labml.state(words).items() if key != name}
    held |= {} if value is None else {name: value}
    with pytest.raises(CheckpointError, match=message.format(name.replace(".", r"\."))):
        tv.load(save(tmp_path, held), device="cpu")


def test_biases_that_the_file_does_not_hold_are_none_and_not_zero(tmp_path):
    words = {"qk_bias": False, "gated": True, "ffn_bias": False}
    module = tv.load(save(tmp_path, labml.state(words)), device="cpu").module
    layer = module.decoder.layers[0]
    for part in (layer.self_attention.query, layer.cross_attention.key, layer.feed_forward.gate):
        assert part.bias is None
    assert layer.self_attention.value.bias is not None
