"""OpenNMT-py 3: the same numbers as a witness, its words, and what it holds beside weights."""

from __future__ import annotations

import argparse
import collections
import dataclasses

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.checkpoints import opennmt
from tests.checkpoints.greedy import greedy
from tests.checkpoints.opennmt import END, PAD, START, VT, Variant, save
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.provenance import ORIGINS
from transformer_viz.inference.generation import translate_lines
from transformer_viz.model import ModelConfig
from transformer_viz.preprocessing.tokenizers import PlainIds, target_side

SOURCE = [5, 11, 8, 36, 4]
TARGET = [START, 40, 17, 9]


def test_every_variant_is_within_rounding_of_the_witness():
    assert not [row for row in opennmt.rows() if not row.passed]


@pytest.mark.parametrize("name", opennmt.VARIANTS)
def test_each_word_says_where_it_came_from(name, tmp_path):
    variant = opennmt.VARIANTS[name]
    model = tv.load(save(tmp_path, variant)[0])
    assert set(model.provenance) == {field.name for field in dataclasses.fields(ModelConfig)}
    assert set(model.provenance.values()) <= set(ORIGINS)
    assert (model.layout, model.guesses, model.notes) == ("opennmt", (), ())
    assert (model.pad_id, model.bos_id, model.eos_id) == (PAD, START, END)
    assert model.max_tokens == opennmt.P
    assert (model.config["heads"], model.provenance["heads"]) == (opennmt.HEADS, "file")
    assert model.config["norm_eps"] == (variant.eps or 1e-6)
    assert model.provenance["norm_eps"] == ("file" if variant.eps else "layout")
    assert model.config["attention_bias"] == variant.qkv_bias
    assert model.config["tied"] == {"decoder": "output"}.get(variant.share, variant.share)
    biases = [name for name, _ in model.module.named_parameters() if name.endswith("inner.bias")]
    assert bool(biases) == variant.ffn_bias


def test_special_tokens_are_where_the_lists_have_them(tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    content["vocab"]["src"] = ["<blank>", "<unk>", *content["vocab"]["src"][4:], "x", "y"]
    content["vocab"]["tgt"] = [*content["vocab"]["tgt"][4:], "</s>", "<unk>", "<s>", "<blank>"]
    torch.save(content, path)
    model = tv.load(path)
    assert (model.pad_id, model.bos_id, model.eos_id) == (0, VT - 2, VT - 4)
    assert model.tokenizer.source_ids("nowhere") == [1]
    assert model.tokenizer.target_ids("nowhere") == [VT - 2, VT - 3]


def test_a_file_without_words_takes_ids(tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    del content["vocab"]
    torch.save(content, path)
    model = tv.load(path)
    assert isinstance(model.tokenizer, PlainIds)
    assert set(model.guesses) == {"pad_id", "bos_id", "eos_id"}
    assert "token ids are typed" in model.notes[-1]
    assert tv.trace(model, "5 11 8", "2 40").source.ids == (5, 11, 8)


def test_the_two_sides_have_their_own_words(tmp_path):
    model = tv.load(save(tmp_path, Variant())[0])
    assert model.tokenizer.source_ids("s5 s6￭ s7 t5") == [5, 6, 7, 0]
    assert model.tokenizer.target_ids("t6￭ t7") == [START, 6, 7]
    assert target_side(model.tokenizer).decode([START, 6, 7, 8, END]) == "t6t7 t8"
    trace = tv.trace(model, "s5 s6￭ s7", "t6￭ t7")
    assert trace.source.labels == ("s5", "s6", "s7")
    assert trace.source.words == (0, 1, 1)
    assert trace.target.pieces == ("<s>", "t6￭", "t7")
    assert all(piece.startswith(("t", "<")) for piece in trace.produced.pieces)


def test_padding_changes_nothing(tmp_path):
    model = tv.load(save(tmp_path, Variant(qkv_bias=True))[0])
    plain = tv.trace(model, SOURCE, TARGET)
    for padded in ([*SOURCE, PAD, PAD], [*SOURCE, PAD]):
        trace = tv.trace(model, padded, TARGET)
        assert np.abs(trace.logits - plain.logits).max() <= 2e-5


def test_a_source_of_padding_alone_is_left_unmasked(tmp_path):
    variant = Variant()
    path, held = save(tmp_path, variant)
    trace = tv.trace(tv.load(path), [PAD, PAD, PAD], TARGET)
    maps, _ = opennmt.forward(
        held, variant, torch.tensor([[PAD, PAD, PAD]]), torch.tensor([TARGET])
    )
    first = trace.attention("encoder", layer=0)
    assert np.abs(first - maps[0][0].numpy()).max() <= 5e-6
    assert np.abs(first - 1 / 3).max() > 0.01  # a mask of -1e18 everywhere would be uniform


def test_translation_is_the_witness_step_by_step(tmp_path):
    variant = Variant(share="decoder")
    path, held = save(tmp_path, variant)
    model, source = tv.load(path), torch.tensor([SOURCE])

    def logits(row):
        return opennmt.forward(held, variant, source, torch.tensor([row]))[1][0]

    best = tv.translate(model, SOURCE, max_tokens=8)[0]
    assert best.ids == greedy(logits, [START], 8, END)
    steps = [
        logits([START, *best.ids[:n]])[-1].log_softmax(-1)[token].item()
        for n, token in enumerate(best.ids)
    ]
    assert best.steps == pytest.approx(steps, abs=2e-5)


def test_lines_of_several_lengths_translate_as_one_by_one(tmp_path):
    model = tv.load(save(tmp_path, Variant())[0])
    lines = ["s5 s11 s8", "s9￭", "s30￭ s7"]
    together = translate_lines(model, lines, beam=2, batch=3)
    alone = [tv.translate(model, line, beam=2)[0] for line in lines]
    assert [best.ids for best in together] == [best.ids for best in alone]


def test_a_trace_proves_its_capture(tmp_path):
    trace = tv.trace(tv.load(save(tmp_path, Variant())[0]), SOURCE, TARGET)
    assert trace.report.output_difference == 0.0
    assert max(trace.report.rebuilt.values()) < 1e-5
    assert trace.report.unrecognised == ()
    assert set(trace.positions) == {"table.encoder", "table.decoder"}


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_relative_positions": 20}, "max_relative_positions=20; only 0"),
        ({"max_relative_positions": -1}, "max_relative_positions=-1; only 0"),
        ({"self_attn_type": "average"}, "self_attn_type='average'; only scaled-dot"),
        ({"pos_ffn_activation_fn": "gated-gelu"}, "='gated-gelu'; only relu or gelu"),
        ({"parallel_residual": True}, "parallel_residual=True"),
        ({"heads": 3}, "heads=3 does not divide"),
    ],
)
def test_options_that_are_not_supported_are_named(more, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        tv.load(save(tmp_path, Variant(), **more)[0])


class Vocab:
    """A class of some other package, as older files keep their words in."""


def test_words_in_a_class_of_their_own_are_left_out_by_its_name(tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    content["vocab"] = {"src": Vocab()}
    torch.save(content, path)
    model = tv.load(path, device="cpu")
    assert any(
        "left out: vocab.src" in note and "test_opennmt.Vocab" in note for note in model.notes
    )


def test_plain_containers_of_options_are_no_hindrance(tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    content["opt"] = argparse.Namespace(**vars(content["opt"]), data={"a": collections.Counter()})
    torch.save(content, path)
    assert tv.load(path).config["heads"] == opennmt.HEADS


@pytest.mark.parametrize("part", ["generator.weight", "generator.bias"])
def test_a_damaged_generator_is_refused(part, tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    name = part.partition(".")[2]
    content["generator"][name] = content["generator"][name][: VT - 1].clone()
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=part.replace(".", r"\.")):
        tv.load(path)
    del content["generator"][name]
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=f"lacks the weight {part}".replace(".", r"\.")):
        tv.load(path)
    content["generator"] = {}
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=r"lacks the weight generator\.weight"):
        tv.load(path)


@pytest.mark.parametrize("word", ["d_model", "source_vocab", "heads", "pad_id"])
@pytest.mark.parametrize("value", ["x", None, 2.5, True, -7, [1]])
def test_values_of_the_wrong_kind_are_refused_in_a_sentence(word, value, tmp_path):
    path = save(tmp_path, Variant())[0]
    with pytest.raises(CheckpointError, match=word) as caught:
        tv.load(path, **{word: value})
    assert "\n" not in str(caught.value)
