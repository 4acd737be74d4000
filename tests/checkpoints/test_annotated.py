"""The Annotated Transformer's files: exact maps, what is guessed, and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError

from . import annotated


def save(folder: Path, held: dict[str, torch.Tensor]) -> Path:
    torch.save(held, folder / "multi30k_model_final.pt")
    return folder / "multi30k_model_final.pt"


def test_attention_and_logits_are_those_of_the_code():
    assert not [row for row in annotated.rows() if not row.passed]


def test_the_witness_gives_uniform_rows_where_nothing_can_be_seen():
    maps, _ = annotated.witness(annotated.state(), *annotated.inputs()["rows that may see nothing"])
    assert torch.equal(maps[0][1], torch.full((5, 3, 3), 1 / 3, dtype=torch.float64))


def test_what_the_file_does_not_say_is_marked_as_a_guess(tmp_path):
    model = tv.load(save(tmp_path, annotated.state()), device="cpu")
    assert (model.layout, model.kind, model.name) == (
        "annotated_transformer",
        "encoder-decoder",
        "multi30k_model_final",
    )
    assert (model.pad_id, model.bos_id, model.eos_id) == (2, 0, 1)
    assert model.max_tokens == annotated.P
    assert model.guesses == ("heads", "d_k", "d_v", "pad_id", "bos_id", "eos_id")
    assert model.provenance["norm_kind"] == "layout" and model.provenance["d_ff"] == "shapes"
    assert model.config["heads"] == 5 and model.provenance.keys() == model.config.keys()
    assert [note.partition(":")[0] for note in model.notes] == [
        "Its vocabulary is kept apart, in vocab.pt, a pickle that could run code and is never "
        "opened",
        "heads=5 is a guess, the usual choice",
    ]
    told = tv.load(save(tmp_path, annotated.state()), device="cpu", heads=3, pad_id=0)
    assert told.provenance["heads"] == told.provenance["pad_id"] == "override"
    assert (told.config["d_k"], told.provenance["d_k"]) == (5, "shapes")


def test_a_wide_model_has_64_numbers_a_head(tmp_path):
    from transformer_viz.checkpoints.common.word_checks import usual_heads

    assert [usual_heads(width) for width in (512, 768, 64, 100, 15, 7)] == [8, 12, 1, 5, 5, 7]


@pytest.mark.parametrize("tied", ["none", "embeddings", "output", "all"])
def test_tables_that_are_one_matrix_stay_one(tied, tmp_path):
    held = annotated.state()
    held["src_embed.0.lut.weight"] = torch.cat((held["src_embed.0.lut.weight"], torch.ones(4, 15)))
    table = held["tgt_embed.0.lut.weight"]
    if tied in ("embeddings", "all"):
        held["src_embed.0.lut.weight"] = table
    if tied in ("output", "all"):
        held["generator.proj.weight"] = table
    model = tv.load(save(tmp_path, held), device="cpu")
    assert (model.config["tied"], model.provenance["tied"]) == (tied, "file")
    apart = {"none": 0, "embeddings": 1, "output": 1, "all": 2}[tied]
    # every tensor once, and the two position tables are no parameters
    whole = sum(v.numel() for name, v in held.items() if not name.endswith(".pe"))
    assert model.parameters == whole - apart * table.numel()


BAD = {
    "missing": ("decoder.layers.2.src_attn.linears.1.bias", None, r"lacks the weight {}\. Missing"),
    "shape": ("encoder.norm.a_2", torch.zeros(14), r"{} is \[14\] in multi30k.*makes it \[15\]"),
    "table": ("tgt_embed.1.pe", None, r"lacks the weight {} \(the nearest name is src_embed\.1"),
    "vector": ("src_embed.0.lut.weight", torch.zeros(5), r"{} is \[5\] .* has 2 axes there"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_do_not_fit_are_told_in_their_own_names(case, tmp_path):
    name, value, message = BAD[case]
    held = {key: old for key, old in annotated.state().items() if key != name}
    held |= {} if value is None else {name: value}
    with pytest.raises(CheckpointError, match=message.format(name.replace(".", r"\."))):
        tv.load(save(tmp_path, held), device="cpu")


def test_a_decoder_that_is_lost_is_missed(tmp_path):
    held = {n: w for n, w in annotated.state().items() if not n.startswith("decoder.")}
    with pytest.raises(CheckpointError, match=r"lacks the weight decoder\.layers\.0\.self_attn"):
        tv.load(save(tmp_path, held), device="cpu")


def test_a_renamed_weight_is_told_with_its_new_name(tmp_path):
    held = annotated.state()
    held["encoder.norm.a_3"] = held.pop("encoder.norm.a_2")
    with pytest.raises(CheckpointError, match=r"encoder\.norm\.a_2 \(the nearest name is .*a_3\)"):
        tv.load(save(tmp_path, held), device="cpu")


def test_overrides_are_known_and_possible(tmp_path):
    path = save(tmp_path, annotated.state())
    for words, message in (
        ({"head": 3}, "no word 'head' to override; known are d_model, heads"),
        ({"heads": 4}, "heads=4 does not divide the 15 rows of the projections; choose one of 1, "),
        ({"norm": "sideways"}, "norm='sideways' is not supported"),
        ({"d_model": "x"}, "d_model needs a whole number"),
        ({"pad_id": -2}, "pad_id needs a whole number"),
        ({"bos_id": 23}, "bos_id=23, but this model knows tokens 0 to 22"),
        ({"max_positions": 30}, "max_positions=30 needs more rows than the 29"),
        ({"encoder_layers": 0}, "a weight src_embed.0.lut.weight that this model does not know"),
    ):
        with pytest.raises(CheckpointError, match=message):
            tv.load(path, device="cpu", **words)


def test_a_trace_is_proved_and_greedy_words_are_those_of_the_witness(tmp_path):
    held = annotated.state()
    model = tv.load(save(tmp_path, held), device="cpu", heads=annotated.H)
    assert tv.trace(model, [4, 9, 6, 1], [0, 17]).report.status == "green"
    source, said = torch.tensor([[4, 9, 6, 1]]), [0]
    while len(said) < 6 and said[-1] != 1:
        logits = annotated.witness(held, source, torch.tensor([said]))[1]
        said.append(int(logits[0, -1].argmax()))
    assert tv.translate(model, [4, 9, 6, 1], max_tokens=5)[0].ids == tuple(said[1:])


def test_a_sentencepiece_model_beside_the_weights_reads_text(tmp_path, make_vocabulary):
    held = annotated.state()
    wide = torch.linspace(-1, 1, 331 * 15).reshape(331, 15)
    for name in ("src_embed.0.lut.weight", "tgt_embed.0.lut.weight", "generator.proj.weight"):
        held[name] = wide + len(name) / 50
    held["generator.proj.bias"] = torch.zeros(331)
    path = save(tmp_path, held)
    (tmp_path / "bpe.model").write_bytes(make_vocabulary())
    model = tv.load(path, device="cpu", heads=5)
    assert model.tokenizer.decode(model.tokenizer.source_ids("The tired cat.")) == "The tired cat."
    assert (model.bos_id, model.eos_id, model.notes) == (2, 3, ())
    assert model.provenance["bos_id"] == model.provenance["eos_id"] == "sidecar"
    (tmp_path / "other.model").write_bytes(make_vocabulary())
    assert tv.load(path, device="cpu", heads=5).bos_id == 0  # which of the two is not clear
    (tmp_path / "vocabulary.model").write_bytes(make_vocabulary(vocab_size=341))
    with pytest.raises(CheckpointError, match=r"vocabulary\.model has 341 pieces, .* knows 331"):
        tv.load(path, device="cpu", heads=5)
