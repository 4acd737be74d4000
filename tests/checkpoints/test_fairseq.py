"""fairseq: the same numbers as a witness, positions that count, and its dictionaries."""

from __future__ import annotations

import argparse
import dataclasses

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.checkpoints import fairseq
from tests.checkpoints.drawn import row
from tests.checkpoints.fairseq import END, PAD, VS, VT, Variant, save
from tests.checkpoints.greedy import greedy
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.provenance import ORIGINS
from transformer_viz.checkpoints.layouts import fairseq as layout
from transformer_viz.inference.generation import translate_lines
from transformer_viz.model import ModelConfig
from transformer_viz.preprocessing.tokenizers import PlainIds, target_side

SOURCE = [5, 11, 8, 36, 4, END]
TARGET = [END, 40, 17, 9]


def test_every_variant_is_within_rounding_of_the_witness():
    assert not [row for row in fairseq.rows() if not row.passed]


@pytest.mark.parametrize("name", fairseq.VARIANTS)
def test_each_word_says_where_it_came_from(name, tmp_path):
    variant = fairseq.VARIANTS[name]
    model = tv.load(save(tmp_path, variant)[0])
    words = {field.name for field in dataclasses.fields(ModelConfig)} | set(layout.LANGUAGES)
    assert set(model.provenance) == set(model.config) == words
    assert set(model.provenance.values()) <= set(ORIGINS)
    assert (model.layout, model.guesses) == ("fairseq", ())
    assert (model.pad_id, model.bos_id, model.eos_id) == (1, 2, 2)
    unplaced = "no_token_positional_embeddings" in variant.more
    assert model.max_tokens == (None if unplaced else fairseq.P)
    told = {word: model.config[word] for word in ("heads", "norm", "source_lang", "target_lang")}
    before = "pre" if variant.before else "post"
    assert told == {"heads": 2, "norm": before, "source_lang": "de", "target_lang": "en"}
    assert {model.provenance[word] for word in told} == {"file"}
    assert model.config["final_norm"] == variant.before
    assert model.config["embedding_norm"] == variant.embedding_norm
    placed = "learned" if variant.learned else "sinusoidal_halves"
    assert model.config["positions"] == ("none" if unplaced else placed)
    assert model.config["tied"] == {"decoder": "output"}.get(variant.share, variant.share)


@pytest.mark.parametrize("act", ["gelu_accurate", "tanh", "linear"])
def test_activations_are_those_that_the_options_name(act, tmp_path):
    path, held = save(tmp_path, Variant(act=act))
    inputs = (fairseq.SOURCES, fairseq.TARGETS)
    witness = fairseq.forward(held, Variant(act=act), *inputs)
    assert row("fairseq", act, tv.load(path, device="cpu"), inputs, witness).passed


def test_a_bare_state_dict_opens_with_guesses_that_say_so(tmp_path):
    _, held = save(tmp_path, Variant(before=True))
    torch.save(held, tmp_path / "bare.pt")
    model = tv.load(tmp_path / "bare.pt", heads=2)
    assert model.layout == "fairseq"
    assert set(model.guesses) == {"activation", "max_positions", "embedding_scale"}
    assert (model.config["norm"], model.provenance["norm"]) == ("pre", "shapes")
    guessed = tv.load(tmp_path / "bare.pt")
    assert {"heads", "d_k", "d_v"} <= set(guessed.guesses)


# ---- positions and padding ---------------------------------------------------------------------


@pytest.mark.parametrize("name", fairseq.VARIANTS)
def test_padding_on_either_side_changes_nothing(name, tmp_path):
    model = tv.load(save(tmp_path, fairseq.VARIANTS[name])[0])
    plain = tv.trace(model, SOURCE, TARGET)
    for padded in ([PAD, PAD, *SOURCE], [*SOURCE, PAD], [5, 11, PAD, *SOURCE[2:]]):
        trace = tv.trace(model, padded, TARGET)
        kept = [row for row, token in enumerate(padded) if token != PAD]
        assert np.abs(trace.logits - plain.logits).max() <= 2e-5
        seen = trace.attention("encoder")[:, :, kept][:, :, :, kept]
        assert np.abs(seen - plain.attention("encoder")).max() <= 5e-6
    edit = tv.Intervention.from_json('{"edits": [{"kind": "pad", "count": 3}]}')
    assert (
        np.abs(tv.trace(model, SOURCE, TARGET, intervention=edit).logits - plain.logits).max()
        < 2e-5
    )


@pytest.mark.parametrize("learned", [False, True])
def test_positions_scaled_or_shuffled_are_the_table_edited_by_hand(learned, tmp_path):
    variant = Variant(learned=learned, before=True)
    path, held = save(tmp_path, variant)
    model = tv.load(path)
    ids = torch.tensor([SOURCE]), torch.tensor([TARGET])
    edit = tv.Intervention.from_json('{"edits": [{"kind": "scale_positions", "value": 0.0}]}')
    without = dict(held)
    for stack in ("encoder", "decoder"):
        without[stack + ".embed_positions.weight"] = torch.zeros(fairseq.P + 2, fairseq.D)
    _, logits = fairseq.forward(without, variant, *ids)
    trace = tv.trace(model, SOURCE, TARGET, intervention=edit)
    assert np.abs(trace.logits - logits[0].numpy()).max() <= 2e-5

    edit = tv.Intervention.from_json('{"edits": [{"kind": "shuffle_positions", "seed": 3}]}')
    trace = tv.trace(model, SOURCE, TARGET, intervention=edit)
    clean, moved = tv.trace(model, SOURCE, TARGET).positions, trace.positions
    assert not np.array_equal(moved["table.encoder"], clean["table.encoder"])
    assert sorted(map(tuple, moved["table.encoder"])) == sorted(map(tuple, clean["table.encoder"]))


def test_more_tokens_than_positions_are_refused(tmp_path):
    model = tv.load(save(tmp_path, Variant())[0])
    with pytest.raises(ValueError, match="20 tokens"):
        tv.trace(model, [5] * 20, TARGET)


def test_a_learned_table_bounds_the_positions(tmp_path):
    more = {"max_source_positions": 1000, "max_target_positions": 1000}
    path, _ = save(tmp_path, Variant(learned=True, more=more))
    assert tv.load(path).max_tokens == fairseq.P
    assert tv.load(path, max_positions=7).max_tokens == 7
    with pytest.raises(CheckpointError, match=r"max_positions=20 needs more rows than the 21"):
        tv.load(path, max_positions=20)
    path, _ = save(tmp_path, Variant(more={"max_target_positions": 7}))
    assert tv.load(path).max_tokens == 7
    with pytest.raises(CheckpointError, match=r"lacks the weight encoder\.embed_positions\.weight"):
        tv.load(path, positions="learned")
    with pytest.raises(
        CheckpointError, match=r"decoder\.embed_tokens\.weight that this model does"
    ):
        tv.load(path, decoder_layers=0)


# ---- decoding ----------------------------------------------------------------------------------


def test_translation_is_the_witness_step_by_step(tmp_path):
    variant = Variant(learned=True)
    path, held = save(tmp_path, variant)
    model, source = tv.load(path), torch.tensor([SOURCE])

    def logits(row):
        return fairseq.forward(held, variant, source, torch.tensor([row]))[1][0]

    best = tv.translate(model, SOURCE, max_tokens=8)[0]
    assert best.ids == greedy(logits, [END], 8, END)
    steps = [
        logits([END, *best.ids[:n]])[-1].log_softmax(-1)[token].item()
        for n, token in enumerate(best.ids)
    ]
    assert best.steps == pytest.approx(steps, abs=2e-5)


def test_lines_of_several_lengths_translate_as_one_by_one(tmp_path):
    model = tv.load(save(tmp_path, Variant(before=True))[0])
    lines = ["5 11 8 36 4 2", "9 2", "30 6 7 2"]
    together = translate_lines(model, lines, beam=2, batch=3)
    alone = [tv.translate(model, line, beam=2)[0] for line in lines]
    assert [best.ids for best in together] == [best.ids for best in alone]


def test_a_trace_proves_its_capture(tmp_path):
    trace = tv.trace(tv.load(save(tmp_path, Variant(embedding_norm=True))[0]), SOURCE, TARGET)
    assert trace.report.output_difference == 0.0
    assert max(trace.report.rebuilt.values()) < 1e-5
    assert trace.report.unrecognised == ()
    assert set(trace.positions) == {"table.encoder", "table.decoder"}


# ---- dictionaries ------------------------------------------------------------------------------


def dictionary(size, side):
    words = [f"{side}{n}" + "@@" * (n % 5 == 0) for n in range(4, size)]
    return "".join(f"{word} {1000 - n}\n" for n, word in enumerate(words))


def test_two_dictionaries_are_the_words_of_the_two_sides(tmp_path):
    path, _ = save(tmp_path, Variant())
    (tmp_path / "dict.de.txt").write_text(dictionary(VS, "quelle"))
    (tmp_path / "dict.en.txt").write_text(dictionary(VT, "word"))
    model = tv.load(path)
    assert model.notes == ()
    assert model.tokenizer.source_ids("quelle5@@ quelle6 Haus") == [5, 6, 3, END]
    assert model.tokenizer.target_ids("word40@@ word9") == [END, 40, 9]
    assert target_side(model.tokenizer).decode([END, 40, 9, 5, 3, END]) == "word40word9 word5<unk>"
    trace = tv.trace(model, "quelle5@@ quelle6 quelle7", "word40@@ word9")
    assert trace.source.labels == ("quelle5", "quelle6", "quelle7", "</s>")
    assert trace.source.words == (0, 0, 1, 2)
    assert trace.target.labels == ("</s>", "word40", "word9")
    assert trace.produced.pieces[:2] == ("word40@@", "word9")
    best = tv.translate(model, "quelle7", max_tokens=3)[0]
    assert best.text == target_side(model.tokenizer).decode(best.ids)
    assert "quelle" not in best.text


def test_one_dictionary_serves_both_sides(tmp_path):
    path, _ = save(tmp_path, Variant(share="all"))
    (tmp_path / "dict.txt").write_text(dictionary(VT, "w"))
    assert tv.load(path).tokenizer.target_ids("w4 w6") == [END, 4, 6]


def test_languages_can_be_said_where_the_file_does_not(tmp_path):
    _, held = save(tmp_path, Variant())
    torch.save(held, tmp_path / "bare.pt")
    (tmp_path / "dict.fr.txt").write_text(dictionary(VS, "s"))
    (tmp_path / "dict.it.txt").write_text(dictionary(VT, "t"))
    plain = tv.load(tmp_path / "bare.pt", heads=2)
    assert isinstance(plain.tokenizer, PlainIds)
    assert "token ids are typed" in plain.notes[-1]
    model = tv.load(tmp_path / "bare.pt", heads=2, source_lang="fr", target_lang="it")
    assert model.tokenizer.source_ids("s9") == [9, END]
    assert model.provenance["source_lang"] == "override"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("word 12\nanother\n", r"Line 2 of dict\.de\.txt is 'another'"),
        ("word twelve\n", r"Line 1 of dict\.de\.txt"),
        (dictionary(VS + 1, "w"), r"dict\.de\.txt has 38 entries, but .* knows 37"),
    ],
)
def test_damaged_or_foreign_dictionaries_are_refused(content, message, tmp_path):
    path, _ = save(tmp_path, Variant())
    (tmp_path / "dict.de.txt").write_text(content)
    (tmp_path / "dict.en.txt").write_text(dictionary(VT, "t"))
    with pytest.raises(CheckpointError, match=message):
        tv.load(path)


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"activation_fn": "relu_squared"}, "activation_fn='relu_squared', which is not supported"),
        (
            {"decoder_attention_heads": 11},
            "encoder_attention_heads=2 and decoder_attention_heads=11",
        ),
        ({"decoder_normalize_before": True}, "encoder_normalize_before=False and decoder_"),
        ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "heads=3 does not divide"),
        ({"activation_fn": ["relu"]}, "which is not supported"),
        ({"max_source_positions": 10**9, "max_target_positions": 10**9}, "position table"),
    ],
)
def test_options_that_are_not_supported_are_named(more, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        tv.load(save(tmp_path, Variant(more=more))[0])


def test_weights_that_are_not_known_are_named(tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    content["model"]["encoder.layers.0.attn_ln.weight"] = torch.ones(fairseq.D)
    torch.save(content, path)
    with pytest.raises(
        CheckpointError, match=r"encoder\.layers\.0\.attn_ln\.weight that this model"
    ):
        tv.load(path)


def test_an_output_that_is_not_stored_is_the_embedding_only_where_the_options_say_so(tmp_path):
    for share in ("decoder", "none"):
        path, _ = save(tmp_path, Variant(share=share))
        content = torch.load(path, weights_only=False)
        del content["model"]["decoder.output_projection.weight"]
        torch.save(content, path)
        if share == "decoder":
            assert tv.load(path).config["tied"] == "output"
    with pytest.raises(CheckpointError, match=r"lacks the weight decoder\.output_projection"):
        tv.load(path)


def test_the_options_hold_plain_values_only(tmp_path):
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    content["args"] = argparse.Namespace(encoder_attention_heads="two")
    torch.save(content, path)
    with pytest.raises(CheckpointError, match="heads"):
        tv.load(path)


@pytest.mark.parametrize("word", ["d_model", "source_vocab", "heads", "pad_id"])
@pytest.mark.parametrize("value", ["x", None, 2.5, True, -7, [1]])
def test_values_of_the_wrong_kind_are_refused_in_a_sentence(word, value, tmp_path):
    path = save(tmp_path, Variant())[0]
    with pytest.raises(CheckpointError, match=word) as caught:
        tv.load(path, **{word: value})
    assert "\n" not in str(caught.value)
