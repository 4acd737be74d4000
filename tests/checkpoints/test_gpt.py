"""nanoGPT, minGPT and bare GPT-2: the same numbers as a witness, and their vocabularies."""

from __future__ import annotations

import dataclasses
import json
import pickle
import string

import pytest
import torch
from torch.nn import functional as F

import transformer_viz as tv
from tests.checkpoints import gpt
from tests.checkpoints.greedy import greedy
from transformer_viz.checkpoints import CheckpointError
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.common.provenance import GUESSES, ORIGINS
from transformer_viz.checkpoints.layouts import gpt2, mingpt, nanogpt
from transformer_viz.model import ModelConfig
from transformer_viz.preprocessing.tokenizers import PlainIds
from transformer_viz.preprocessing.word_list import Characters

LETTERS = sorted(string.ascii_letters[:34] + "\n .")


def test_every_variant_is_within_rounding_of_the_witness():
    assert not [row for row in gpt.rows() if not row.passed]


MAKERS = {
    "nanogpt": gpt.nanogpt_file,
    "mingpt": gpt.mingpt_file,
    "mingpt of 2020": gpt.mingpt_2020_file,
    "gpt2": gpt.gpt2_file,
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_file_is_known_by_its_own_layout_alone(maker, tmp_path):
    path, _ = MAKERS[maker](tmp_path)
    knowing = [
        layout.NAME for layout in (nanogpt, mingpt, gpt2) if layout.recognise(Candidate(path, {}))
    ]
    assert knowing == [maker.partition(" ")[0]]
    model = tv.load(path, heads=gpt.HEADS)
    assert (model.layout, model.kind, model.takes) == (knowing[0], "decoder-only", "text")
    assert (model.pad_id, model.bos_id, model.eos_id) == (None, None, None)
    assert model.max_tokens == gpt.P
    assert isinstance(model.tokenizer, PlainIds)
    assert "token ids are typed" in model.notes[-1]


def test_each_word_says_where_it_came_from(tmp_path):
    model = tv.load(gpt.nanogpt_file(tmp_path)[0])
    words = {field.name for field in dataclasses.fields(ModelConfig)}
    assert set(model.provenance) == set(model.config) == words
    assert set(model.provenance.values()) <= set(ORIGINS)
    assert model.guesses == ()
    assert model.provenance["heads"] == "file"
    assert model.provenance["d_model"] == "shapes"
    assert model.provenance["activation"] == "layout"
    again = tv.load(gpt.nanogpt_file(tmp_path)[0], heads=11, activation="gelu_tanh")
    assert (again.config["heads"], again.provenance["heads"]) == (11, "override")
    assert (again.config["d_k"], again.provenance["activation"]) == (2, "override")


def test_without_biases_none_are_invented(tmp_path):
    model = tv.load(gpt.nanogpt_file(tmp_path, bias=False)[0])
    assert not [name for name, _ in model.module.named_parameters() if name.endswith("bias")]
    assert model.config["attention_bias"] is False


@pytest.mark.parametrize(
    ("layers", "width", "config", "heads", "origin"),
    [
        (4, 128, {"model_type": "gpt-micro", "n_head": None, "vocab_size": None}, 4, "sidecar"),
        (3, 48, {"model_type": "gpt-nano", "n_layer": None, "n_head": None}, 3, "sidecar"),
        (2, 22, {"model_type": None, "n_layer": 2, "n_head": 11}, 11, "sidecar"),
        (2, 22, {"model_type": "gpt-nano", "n_head": None}, 2, "convention"),
        (2, 48, {"model_type": "gpt-nano", "n_head": None}, 8, "convention"),
        (2, 128, None, 2, "convention"),
    ],
)
def test_heads_of_a_mingpt_come_from_the_config_beside_it(
    layers, width, config, heads, origin, tmp_path, monkeypatch
):
    monkeypatch.setattr(gpt, "LAYERS", layers)
    monkeypatch.setattr(gpt, "D", width)
    model = tv.load(gpt.mingpt_file(tmp_path, config)[0])
    assert (model.config["heads"], model.provenance["heads"]) == (heads, origin)
    assert ("heads" in model.guesses) == (origin == "convention")
    assert model.config["activation"] == "gelu_tanh"


def test_generation_is_the_witness_step_by_step(tmp_path):
    path, held = gpt.nanogpt_file(tmp_path)
    ids = gpt.IDS[0].tolist()

    def logits(row):
        return gpt.forward(held, torch.tensor([row]), F.gelu)[1][0]

    best = tv.translate(tv.load(path), ids, max_tokens=7)[0]
    assert best.ids == greedy(logits, ids, 7)
    steps = [
        logits([*ids, *best.ids[:n]])[-1].log_softmax(-1)[token].item()
        for n, token in enumerate(best.ids)
    ]
    assert best.steps == pytest.approx(steps, abs=2e-5)


def test_a_trace_proves_its_capture(tmp_path):
    trace = tv.trace(tv.load(gpt.nanogpt_file(tmp_path, bias=False)[0]), "5 11 2 36")
    assert trace.attention("decoder").shape == (gpt.LAYERS, gpt.HEADS, 4, 4)
    assert trace.report.output_difference == 0.0
    assert max(trace.report.rebuilt.values()) < 1e-5
    assert set(trace.positions) == {"table.decoder"}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_missing_weight_is_named_as_the_file_names_it(maker, tmp_path):
    path, _ = MAKERS[maker](tmp_path)
    content = torch.load(path)
    inner = content.get("model", content)
    name = "blocks.1.mlp.2.weight" if "2020" in maker else "transformer.h.1.mlp.c_proj.weight"
    del inner[name]
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=f"lacks the weight {name}".replace(".", r"\.")):
        tv.load(path, heads=2)


@pytest.mark.parametrize("lost", ["h.0.attn.c_attn.bias", "h.1.attn.c_attn.weight"])
def test_fused_rows_are_named_as_the_one_weight_that_they_are(lost, tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    content = torch.load(path)
    del content["model"][f"transformer.{lost}"]
    torch.save(content, path)
    with pytest.raises(
        CheckpointError, match=rf"lacks the weight transformer\.{lost}[ .]"
    ) as found:
        tv.load(path)
    assert "[" not in str(found.value)


@pytest.mark.parametrize(
    ("maker", "name"),
    [
        ("nanogpt", "transformer.ln_f.bias"),
        ("mingpt", "lm_head.weight"),
        ("gpt2", "transformer.ln_f.bias"),
    ],
)
def test_what_only_some_files_lack_is_not_made_up_for_others(maker, name, tmp_path):
    path, _ = MAKERS[maker](tmp_path)
    content = torch.load(path)
    inner = content.get("model", content)
    del inner[name]
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=f"lacks the weight {name}"):
        tv.load(path, heads=2)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"heads": 5}, "heads=5 does not divide the 22 rows"),
        ({"heads": "2"}, "heads"),
        ({"n_head": 2}, "There is no word 'n_head'"),
        ({"d_model": 44}, r"transformer.wte.weight is \[37, 22\]"),
        ({"eos_id": 37}, "eos_id=37, but this model knows tokens 0 to 36"),
    ],
)
def test_words_that_do_not_fit_are_refused(overrides, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        tv.load(gpt.nanogpt_file(tmp_path)[0], **overrides)


# ---- vocabularies ------------------------------------------------------------------------------


def meta(letters):
    stoi = {letter: n for n, letter in enumerate(letters)}
    return pickle.dumps(
        {"vocab_size": len(letters), "itos": dict(enumerate(letters)), "stoi": stoi}
    )


@pytest.mark.parametrize(
    "place", ["out/meta.pkl", "out/letters/meta.pkl", "data/letters/meta.pkl", "letters/meta.pkl"]
)
def test_characters_are_found_beside_the_file_or_with_the_data(place, tmp_path):
    (tmp_path / "out").mkdir()
    path, held = gpt.nanogpt_file(tmp_path / "out")
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_bytes(meta(LETTERS))
    model = tv.load(path)
    assert isinstance(model.tokenizer, Characters)
    assert model.notes == ()
    ids = [LETTERS.index(letter) for letter in "a cab.\n"]
    trace = tv.trace(model, "a cab.\n")
    assert trace.source.ids == tuple(ids)
    assert trace.source.labels == ("a", "␣", "c", "a (2)", "b", ".", "↵")
    best = tv.translate(model, "a cab", max_tokens=4)[0]
    expected = greedy(lambda row: gpt.forward(held, torch.tensor([row]), F.gelu)[1][0], ids[:5], 4)
    assert best.text == "".join(LETTERS[i] for i in expected)


def test_characters_of_another_model_are_refused_or_passed_over(tmp_path):
    (tmp_path / "out").mkdir()
    path, _ = gpt.nanogpt_file(tmp_path / "out")
    (tmp_path / "data" / "letters").mkdir(parents=True)
    (tmp_path / "data" / "letters" / "meta.pkl").write_bytes(meta(LETTERS[:20]))
    assert isinstance(tv.load(path).tokenizer, PlainIds)
    (tmp_path / "out" / "meta.pkl").write_bytes(meta(LETTERS[:20]))
    with pytest.raises(CheckpointError, match=r"meta\.pkl has 20 entries, but .* knows 37"):
        tv.load(path)


@pytest.mark.parametrize("letters", [LETTERS, "0123456789+=-*/()[]{}<>^%$#@!~?:;,|'`"])
def test_heads_are_a_guess_where_nothing_says_them(letters, tmp_path):
    """Sample text may be longer than the model reads, and in letters that it lacks."""
    _, held = gpt.nanogpt_file(tmp_path)
    torch.save(held, tmp_path / "bare.pt")
    (tmp_path / "meta.pkl").write_bytes(meta(sorted(letters)))
    model = tv.load(tmp_path / "bare.pt")
    assert model.layout == "nanogpt"
    assert model.provenance["heads"] in GUESSES
    assert "heads" in model.notes[-1]


def byte_pair_files(folder, end="<|endoftext|>"):
    """A tiny vocabulary of byte-level BPE, with two merges and GPT-2's end of text."""
    letters = ["Ġ", *"catsTh"]
    vocabulary = {piece: n for n, piece in enumerate([*letters, "at", "cat", end])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\na t\nc at\n")
    return vocabulary


@pytest.mark.parametrize("whole", [False, True])
def test_byte_pairs_beside_the_file_are_read(whole, tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    vocabulary = byte_pair_files(tmp_path)
    if whole:
        tokenizer = tv.load(path).tokenizer._tokenizer
        tokenizer.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
        (tmp_path / "vocab.json").unlink()
    model = tv.load(path)
    ids = [vocabulary[piece] for piece in ("cat", "s", "Ġ", "cat")]
    assert model.tokenizer.prompt_ids("cats cat") == ids
    assert model.tokenizer.decode([*ids, vocabulary["<|endoftext|>"]]) == "cats cat"
    assert model.eos_id == model.config["eos_id"] == vocabulary["<|endoftext|>"]
    assert model.provenance["eos_id"] == "sidecar"
    assert model.tokenizer.tokens(ids).words == (0, 0, 1, 1)


def test_byte_pairs_without_an_end_name_none(tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    byte_pair_files(tmp_path, end="x")
    assert tv.load(path).eos_id is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "<html>", "tokenizer.json is no vocabulary of byte-level BPE"),
        ("tokenizer.json", "{}", "tokenizer.json is no vocabulary of byte-level BPE"),
        ("vocab.json", "[1, 2]", "vocab.json or merges.txt is no vocabulary"),
    ],
)
def test_damaged_byte_pairs_are_refused(name, content, message, tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    byte_pair_files(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError, match=message):
        tv.load(path)


def test_byte_pairs_of_a_larger_model_are_refused(tmp_path):
    path, _ = gpt.nanogpt_file(tmp_path)
    many = {chr(256 + n): n for n in range(gpt.V + 1)}
    (tmp_path / "vocab.json").write_text(json.dumps(many))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(CheckpointError, match=r"vocab\.json has 38 entries, but .* knows 37"):
        tv.load(path)


@pytest.mark.parametrize("word", ["d_model", "target_vocab", "heads", "pad_id"])
@pytest.mark.parametrize("value", ["x", None, 2.5, True, -7, [1]])
def test_values_of_the_wrong_kind_are_refused_in_a_sentence(word, value, tmp_path):
    path = gpt.nanogpt_file(tmp_path)[0]
    with pytest.raises(CheckpointError, match=word) as caught:
        tv.load(path, **{word: value})
    assert "\n" not in str(caught.value)
