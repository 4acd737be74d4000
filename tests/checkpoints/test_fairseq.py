"""fairseq: options, positions that count tokens, and dictionaries.

Decoding and batches of lines are held by test_shared_laws.py.
"""

from __future__ import annotations

import argparse
import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.checkpoints import fairseq
from tests.checkpoints.drawn import row
from tests.checkpoints.fairseq import END, PAD, VS, VT, Variant, save
from tests.checkpoints.opening import opens, refused
from transformer_viz.checkpoints.layouts import fairseq as layout
from transformer_viz.core.interventions import Intervention, Pad, ScalePositions, ShufflePositions
from transformer_viz.model import ModelConfig
from transformer_viz.preprocessing.tokenizers import PlainIds, target_side

SOURCE = [5, 11, 8, 36, 4, END]
TARGET = [END, 40, 17, 9]
WORDS = {field.name for field in dataclasses.fields(ModelConfig)} | set(layout.LANGUAGES)


def bare(folder: Path, variant: Variant) -> Path:
    """Save the weights without their options."""
    torch.save(save(folder, variant)[1], folder / "bare.pt")
    return folder / "bare.pt"


def test_options_become_the_config(tmp_path):
    for variant in fairseq.VARIANTS.values():
        unplaced = "no_token_positional_embeddings" in variant.more
        placed = "learned" if variant.learned else "sinusoidal_halves"
        said = {
            "heads": 2,
            "norm": "pre" if variant.before else "post",
            "source_lang": "de",
            "target_lang": "en",
        }
        model = opens(save(tmp_path, variant)[0], ids=(1, 2, 2), layout="fairseq", guesses=(),
                      max_tokens=None if unplaced else fairseq.P, **said, final_norm=variant.before,
                      embedding_norm=variant.embedding_norm,
                      positions="none" if unplaced else placed,
                      tied={"decoder": "output"}.get(variant.share, variant.share),
                      origin=dict.fromkeys(said, "file"))  # fmt: skip
        assert set(model.config) == WORDS


def test_activations_of_the_options(tmp_path):
    inputs = (fairseq.SOURCES, fairseq.TARGETS)
    for act in ("gelu_accurate", "tanh", "linear"):
        path, held = save(tmp_path, Variant(act=act))
        witness = fairseq.forward(held, Variant(act=act), *inputs)
        assert row("fairseq", act, tv.load(path, device="cpu"), inputs, witness).passed, act


def test_a_bare_state_dict_opens_with_guesses(tmp_path):
    path = bare(tmp_path, Variant(before=True))
    model = opens(path, {"heads": 2}, layout="fairseq", norm="pre", origin={"norm": "shapes"})
    assert set(model.guesses) == {"activation", "max_positions", "embedding_scale"}
    assert {"heads", "d_k", "d_v"} <= set(tv.load(path).guesses)


@pytest.mark.slow
def test_padding_on_either_side_changes_nothing(tmp_path):
    for name, variant in fairseq.VARIANTS.items():
        model = tv.load(save(tmp_path, variant)[0])
        plain = tv.trace(model, SOURCE, TARGET, check=False)
        for padded in ([PAD, PAD, *SOURCE], [*SOURCE, PAD], [5, 11, PAD, *SOURCE[2:]]):
            trace = tv.trace(model, padded, TARGET, check=False)
            kept = [row for row, token in enumerate(padded) if token != PAD]
            assert np.abs(trace.logits - plain.logits).max() <= 2e-5, (name, padded)
            seen = trace.attention("encoder")[:, :, kept][:, :, :, kept]
            assert np.abs(seen - plain.attention("encoder")).max() <= 5e-6, (name, padded)
        pad = Intervention((Pad(count=3),))
        more = tv.trace(model, SOURCE, TARGET, intervention=pad, check=False)
        assert np.abs(more.logits - plain.logits).max() < 2e-5, name


def test_edited_positions_are_those_of_an_edited_table(tmp_path):
    ids = torch.tensor([SOURCE]), torch.tensor([TARGET])
    for learned in (False, True):
        variant = Variant(learned=learned, before=True)
        path, held = save(tmp_path, variant)
        model = tv.load(path)
        zeros = torch.zeros(fairseq.P + 2, fairseq.D)
        without = held | {f"{s}.embed_positions.weight": zeros for s in ("encoder", "decoder")}
        _, logits = fairseq.forward(without, variant, *ids)
        trace = partial(tv.trace, model, SOURCE, TARGET, check=False)
        none = trace(intervention=Intervention((ScalePositions(value=0.0),)))
        assert np.abs(none.logits - logits[0].numpy()).max() <= 2e-5, learned
        order = Intervention((ShufflePositions(seed=3),))
        moved = trace(intervention=order).positions["table.encoder"]
        clean = trace().positions["table.encoder"]
        assert not np.array_equal(moved, clean), learned
        assert sorted(map(tuple, moved)) == sorted(map(tuple, clean)), learned


def test_the_number_of_positions_is_bounded(tmp_path):
    more = {"max_source_positions": 1000, "max_target_positions": 1000}
    path, _ = save(tmp_path, Variant(learned=True, more=more))
    opens(path, max_tokens=fairseq.P)
    opens(path, {"max_positions": 7}, max_tokens=7)
    refused(path, r"max_positions=20 needs more rows than the 21", max_positions=20)
    opens(save(tmp_path, Variant(more={"max_target_positions": 7}))[0], max_tokens=7)
    model = tv.load(save(tmp_path, Variant())[0])
    with pytest.raises(ValueError, match="20 tokens"):
        tv.trace(model, [5] * 20, TARGET)


def dictionary(size: int, side: str) -> str:
    words = [f"{side}{n}" + "@@" * (n % 5 == 0) for n in range(4, size)]
    return "".join(f"{word} {1000 - n}\n" for n, word in enumerate(words))


def test_two_dictionaries_are_the_words_of_the_two_sides(tmp_path):
    path, _ = save(tmp_path, Variant())
    (tmp_path / "dict.de.txt").write_text(dictionary(VS, "quelle"))
    (tmp_path / "dict.en.txt").write_text(dictionary(VT, "word"))
    model = opens(path, notes=())
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
    for content, message in (
        ("word 12\nanother\n", r"Line 2 of dict\.de\.txt is 'another'"),
        ("word twelve\n", r"Line 1 of dict\.de\.txt"),
        (dictionary(VS + 1, "w"), r"dict\.de\.txt has 38 entries, but .* knows 37"),
    ):
        (tmp_path / "dict.de.txt").write_text(content)
        refused(path, message)


def test_one_dictionary_serves_both_sides(tmp_path):
    path, _ = save(tmp_path, Variant(share="all"))
    (tmp_path / "dict.txt").write_text(dictionary(VT, "w"))
    assert tv.load(path).tokenizer.target_ids("w4 w6") == [END, 4, 6]


def test_languages_may_be_overrides(tmp_path):
    path = bare(tmp_path, Variant())
    (tmp_path / "dict.fr.txt").write_text(dictionary(VS, "s"))
    (tmp_path / "dict.it.txt").write_text(dictionary(VT, "t"))
    plain = tv.load(path, heads=2)
    assert isinstance(plain.tokenizer, PlainIds)
    assert "token ids are typed" in plain.notes[-1]
    words = {"heads": 2, "source_lang": "fr", "target_lang": "it"}
    model = opens(path, words, origin={"source_lang": "override"})
    assert model.tokenizer.source_ids("s9") == [9, END]


def test_options_that_are_not_supported_are_named(tmp_path):
    far = dict.fromkeys(("max_source_positions", "max_target_positions"), 10**9)
    three = dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 3)
    for more, message in (
        ({"activation_fn": "relu_squared"}, "activation_fn='relu_squared', which is not supported"),
        ({"activation_fn": ["relu"]}, "which is not supported"),
        ({"decoder_attention_heads": 11},
         "encoder_attention_heads=2 and decoder_attention_heads=11"),
        ({"decoder_normalize_before": True}, "encoder_normalize_before=False and decoder_"),
        (three, "heads=3 does not divide"),
        (far, "position table"),
    ):  # fmt: skip
        refused(save(tmp_path, Variant(more=more))[0], message)
    path, _ = save(tmp_path, Variant())
    content = torch.load(path, weights_only=False)
    torch.save(content | {"args": argparse.Namespace(encoder_attention_heads="two")}, path)
    refused(path, "heads")


def test_an_output_that_is_not_stored_is_the_embedding_where_the_options_say_so(tmp_path):
    path, _ = save(tmp_path, Variant(share="decoder"))
    content = torch.load(path, weights_only=False)
    del content["model"]["decoder.output_projection.weight"]
    torch.save(content, path)
    opens(path, tied="output")
