"""OpenNMT-py 3: where its words come from, and what it holds beside weights.

Its numbers are held by the rows of `opennmt.py`, decoding and padding by test_shared_laws.py.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import transformer_viz as tv
from tests.checkpoints import opennmt
from tests.checkpoints.opennmt import END, PAD, START, VT, Variant, save
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.provenance import ORIGINS
from transformer_viz.model import ModelConfig
from transformer_viz.preprocessing.tokenizers import PlainIds, target_side


def content_of(folder: Path) -> tuple[Path, dict[str, Any]]:
    path = save(folder, Variant())[0]
    return path, torch.load(path, weights_only=False)


def reopened(path: Path, content: dict[str, Any]) -> tv.Model:
    torch.save(content, path)
    return tv.load(path, device="cpu")


def test_each_word_says_where_it_came_from(tmp_path):
    for name, variant in opennmt.VARIANTS.items():
        model = tv.load(save(tmp_path, variant)[0])
        assert set(model.provenance) == {field.name for field in dataclasses.fields(ModelConfig)}
        assert set(model.provenance.values()) <= set(ORIGINS), name
        assert (model.layout, model.guesses, model.notes) == ("opennmt", (), ()), name
        assert (model.pad_id, model.bos_id, model.eos_id) == (PAD, START, END), name
        assert model.max_tokens == opennmt.P, name
        assert (model.config["heads"], model.provenance["heads"]) == (opennmt.HEADS, "file"), name
        assert model.config["norm_eps"] == (variant.eps or 1e-6), name
        assert model.provenance["norm_eps"] == ("file" if variant.eps else "layout"), name
        assert model.config["attention_bias"] == variant.qkv_bias, name
        assert model.config["tied"] == {"decoder": "output"}.get(variant.share, variant.share)
        biases = [n for n, _ in model.module.named_parameters() if n.endswith("inner.bias")]
        assert bool(biases) == variant.ffn_bias, name


@pytest.mark.slow
def test_words_and_special_tokens_are_those_of_the_lists(tmp_path):
    path, content = content_of(tmp_path)
    model = tv.load(path)
    assert model.tokenizer.source_ids("s5 s6￭ s7 t5") == [5, 6, 7, 0]
    assert model.tokenizer.target_ids("t6￭ t7") == [START, 6, 7]
    assert target_side(model.tokenizer).decode([START, 6, 7, 8, END]) == "t6t7 t8"
    trace = tv.trace(model, "s5 s6￭ s7", "t6￭ t7")
    assert trace.source.labels == ("s5", "s6", "s7")
    assert trace.source.words == (0, 1, 1)
    assert trace.target.pieces == ("<s>", "t6￭", "t7")
    assert all(piece.startswith(("t", "<")) for piece in trace.produced.pieces)
    assert trace.report.output_difference == 0.0 and trace.report.unrecognised == ()
    assert max(trace.report.rebuilt.values()) < 1e-5
    assert set(trace.positions) == {"table.encoder", "table.decoder"}
    own = dict(content["vocab"])
    content["vocab"]["src"] = ["<blank>", "<unk>", *own["src"][4:], "x", "y"]
    content["vocab"]["tgt"] = [*own["tgt"][4:], "</s>", "<unk>", "<s>", "<blank>"]
    model = reopened(path, content)
    assert (model.pad_id, model.bos_id, model.eos_id) == (0, VT - 2, VT - 4)
    assert model.tokenizer.source_ids("nowhere") == [1]
    assert model.tokenizer.target_ids("nowhere") == [VT - 2, VT - 3]
    del content["vocab"]
    model = reopened(path, content)
    assert isinstance(model.tokenizer, PlainIds)
    assert set(model.guesses) == {"pad_id", "bos_id", "eos_id"}
    assert "token ids are typed" in model.notes[-1]
    assert tv.trace(model, "5 11 8", "2 40").source.ids == (5, 11, 8)


class Vocab:
    """A class of some other package, as older files keep their words in."""


def test_objects_beside_the_weights_are_no_hindrance(tmp_path):
    path, content = content_of(tmp_path)
    options = argparse.Namespace(**vars(content["opt"]), data={"a": collections.Counter()})
    assert reopened(path, content | {"opt": options}).config["heads"] == opennmt.HEADS
    notes = reopened(path, content | {"vocab": {"src": Vocab()}}).notes
    assert any("left out: vocab.src" in note and "test_opennmt.Vocab" in note for note in notes)


def test_what_is_not_supported_or_damaged_is_named(tmp_path):
    for more, message in (
        ({"max_relative_positions": 20}, "max_relative_positions=20; only 0"),
        ({"max_relative_positions": -1}, "max_relative_positions=-1; only 0"),
        ({"self_attn_type": "average"}, "self_attn_type='average'; only scaled-dot"),
        ({"pos_ffn_activation_fn": "gated-gelu"}, "='gated-gelu'; only relu or gelu"),
        ({"parallel_residual": True}, "parallel_residual=True"),
        ({"heads": 3}, "heads=3 does not divide"),
    ):
        with pytest.raises(CheckpointError, match=message):
            tv.load(save(tmp_path, Variant(), **more)[0])
    path, content = content_of(tmp_path)
    for part in ("weight", "bias"):
        generator = content["generator"]
        cut = generator | {part: generator[part][: VT - 1].clone()}
        without = {name: tensor for name, tensor in generator.items() if name != part}
        for damaged, message in (
            (cut, rf"generator\.{part}"),
            (without, rf"lacks the weight generator\.{part}"),
            ({}, r"lacks the weight generator\.weight"),
        ):
            with pytest.raises(CheckpointError, match=message):
                reopened(path, content | {"generator": damaged})
    path = save(tmp_path, Variant())[0]
    for word in ("d_model", "source_vocab", "heads", "pad_id"):
        for value in ("x", None, 2.5, True, -7, [1]):
            with pytest.raises(CheckpointError, match=word) as caught:
                tv.load(path, **{word: value})
            assert "\n" not in str(caught.value), (word, value)
