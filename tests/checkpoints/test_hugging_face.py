"""Hugging Face folders: what was saved is what is opened, and every word's origin is told."""

from __future__ import annotations

import json
import random
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError, Model
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.common.provenance import ORIGINS
from transformer_viz.checkpoints.hugging_face import layout

from .hugging_face import (
    BERT,
    CASES,
    FILES,
    HEADS,
    IDS,
    LAYERS,
    PAD,
    START,
    TARGET,
    TEXT,
    D,
    P,
    folder_of,
    made,
    rows,
    saved,
)

SMALL = {"max_position_embeddings": P}
ANY = ["bert", "gpt2", "llama", "marian", "vit"]


def opened(name: str, folder: Path, files: str = "safetensors", **words: Any) -> Model:
    return tv.load(folder_of(CASES[name], files, folder), device="cpu", **words)


def words_of(folder: Path, **changes: Any) -> None:
    """Change words of config.json; None takes one out."""
    path = folder / "config.json"
    words = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in words.items() if v is not None}))


def test_a_folder_computes_what_its_numbers_mean():
    assert not [row for row in rows() if not row.passed]


ARRANGEMENTS = {
    "bert": ("encoder-only", "text", "words"),
    "gpt2": ("decoder-only", "text", "words"),
    "llama": ("decoder-only", "text", "words"),
    "marian": ("encoder-decoder", "text", "words"),
    "vit": ("encoder-only", "image", "classes"),
}


@pytest.mark.parametrize("name", ANY)
def test_the_model_says_what_it_is(name, tmp_path):
    model = opened(name, tmp_path)
    assert (model.kind, model.takes, model.gives) == ARRANGEMENTS[name]
    assert model.layout == "hugging_face"
    assert model.name == tmp_path.name
    assert model.folder == tmp_path
    assert len(model.hash) == 64
    assert model.dtype == model.file_dtype == "float32"
    assert not model.module.training
    assert model.config["heads"] == HEADS
    assert model.config["d_model"] == D
    layers = {stack: model.config[f"{stack}_layers"] for stack in ("encoder", "decoder")}
    assert layers == {
        "encoder": 0 if model.kind == "decoder-only" else LAYERS,
        "decoder": 0 if model.kind == "encoder-only" else LAYERS,
    }
    assert set(model.provenance) == set(model.config)
    assert set(model.provenance.values()) <= set(ORIGINS)
    json.dumps(model.config)


@pytest.mark.parametrize("files", FILES)
def test_every_sort_of_file_gives_the_same_model(files, tmp_path):
    model = opened("bert", tmp_path, files)
    whole = made("BertForMaskedLM", "BertConfig", **CASES["bert"].words).state_dict()
    found = model.module.state_dict()
    assert set(found) == set(whole)
    assert all(torch.equal(found[name], whole[name]) for name in whole)


def test_words_that_nobody_said_are_the_librarys(tmp_path):
    folder = folder_of(CASES["gpt2"], "safetensors", tmp_path)
    words_of(folder, layer_norm_epsilon=None)
    model = tv.load(folder, device="cpu")
    assert model.config["norm_eps"] == 1e-5
    assert model.provenance["norm_eps"] == "layout"
    assert model.provenance["heads"] == "file"
    assert model.provenance["encoder_layers"] == "layout"


@pytest.mark.parametrize(("word", "own"), [("heads", "n_head"), ("n_head", "n_head")])
def test_overridden_heads_are_those_of_the_maps(word, own, tmp_path):
    model = opened("gpt2", tmp_path, **{word: 4})
    assert model.config["heads"] == 4
    assert model.provenance["heads"] == "override"
    trace = tv.trace(model, [4, 5, 6])
    assert trace.attention("decoder").shape == (LAYERS, 4, 3, 3)


def test_overridden_heads_are_those_of_both_stacks(tmp_path):
    model = opened("marian", tmp_path, heads=5)
    trace = tv.trace(model, IDS[0].tolist(), target=TARGET[0].tolist())
    assert {trace.attention(b).shape[1] for b in ("encoder", "decoder", "cross")} == {5}


def test_overridden_ids_are_taken(tmp_path):
    model = opened("gpt2", tmp_path, pad_id=7, eos_id=9, max_tokens=5)
    assert (model.pad_id, model.eos_id, model.max_tokens) == (7, 9, 5)
    assert {model.provenance[w] for w in ("pad_id", "eos_id")} == {"override"}
    with pytest.raises(ValueError, match="reads at most 5"):
        tv.trace(model, [4] * 6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"hedas": 3}, "no word 'hedas'; it knows d_model, heads"),
        ({"heads": "3"}, "heads is int in this config; got '3'"),
        ({"norm_eps": True}, "norm_eps is float"),
        ({"device": "cpu"}, "unexpected|multiple|device"),
    ],
)
def test_other_overrides_are_refused(words, message, tmp_path):
    folder = folder_of(CASES["gpt2"], "safetensors", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    with pytest.raises(CheckpointError, match=message):
        layout.open(Candidate(folder / "model.safetensors", config), None, words)


def test_half_precision_is_computed_in_float32(tmp_path):
    model = made("GPT2LMHeadModel", "GPT2Config", **CASES["gpt2"].words).to(torch.bfloat16)
    found = tv.load(saved(model, tmp_path), device="cpu")
    assert (found.dtype, found.file_dtype) == ("float32", "bfloat16")
    assert {p.dtype for p in found.module.parameters()} == {torch.float32}
    weight = model.transformer.wte.weight.float()
    assert torch.equal(found.module.transformer.wte.weight, weight)


HEADED = {
    "BertForMaskedLM": ("BertConfig", TEXT | BERT | SMALL, "words"),
    "BertForSequenceClassification": ("BertConfig", TEXT | BERT | SMALL, "classes"),
    "BertModel": ("BertConfig", TEXT | BERT | SMALL, "vectors"),
    "LlamaForCausalLM": ("LlamaConfig", CASES["llama"].words, "words"),
    "LlamaModel": ("LlamaConfig", CASES["llama"].words, "vectors"),
    "ViTForImageClassification": ("ViTConfig", CASES["vit"].words, "classes"),
    "MarianMTModel": ("MarianConfig", CASES["marian"].words, "words"),
}


@pytest.mark.parametrize("cls", HEADED)
def test_the_class_is_found_by_the_weights_where_none_is_named(cls, tmp_path):
    config, words, gives = HEADED[cls]
    folder = saved(made(cls, config, **words), tmp_path)
    words_of(folder, architectures=None)
    model = tv.load(folder, device="cpu")
    assert type(model.module).__name__ == cls
    assert model.gives == gives


def test_the_classes_of_words_are_named(tmp_path):
    names = {0: "O", 1: "B-PER", 2: "B-LOC"}
    words = TEXT | BERT | SMALL | {"id2label": names, "label2id": {n: i for i, n in names.items()}}
    folder = saved(made("BertForTokenClassification", "BertConfig", **words), tmp_path)
    model = tv.load(folder, device="cpu")
    assert (model.gives, model.labels, model.notes) == ("tags", ("O", "B-PER", "B-LOC"), ())
    trace = tv.trace(model, [5, 11, 17, 36])
    with torch.inference_mode():
        logits = model.module(torch.tensor([[5, 11, 17, 36]])).logits[0]
    assert torch.allclose(torch.from_numpy(trace.logits.copy()), logits, atol=1e-6)
    best = logits.argmax(-1).tolist()
    assert trace.produced.pieces == tuple(names[i] for i in best)
    assert trace.produced.labels == tuple(
        f"{word}: {names[i]}" for word, i in zip(trace.source.labels, best, strict=True)
    )
    chances = logits.softmax(-1).max(-1).values
    assert torch.allclose(torch.from_numpy(trace.produced.probability.copy()), chances, atol=1e-6)
    assert tv.trace(model, [5, 11, 17, 36], produced=[2, 2, 0, 1]).produced.pieces[3] == "B-PER"
    with pytest.raises(ValueError, match="a class for each of 4 tokens, numbers from 0 to 2"):
        tv.trace(model, [5, 11, 17, 36], produced=[3, 0, 0, 0])
    kept = tv.trace(model, [5, 11, 17], keep=("gradients",)).gradients("encoder")
    assert abs(kept).max() > 0


def test_question_answering_gives_the_ends_of_an_answer_and_no_classes(tmp_path):
    words = TEXT | BERT | SMALL
    model = saved(made("BertForQuestionAnswering", "BertConfig", **words), tmp_path)
    found = tv.load(model, device="cpu")
    assert (found.gives, found.labels, found.notes) == ("spans", (), ())


def test_a_file_of_the_bare_model_with_its_output_tied_opens_whole(tmp_path):
    model = made("GPT2LMHeadModel", "GPT2Config", **CASES["gpt2"].words)
    folder = saved(model.transformer, tmp_path)
    words_of(folder, architectures=["GPT2LMHeadModel"])
    found = tv.load(folder, device="cpu").module
    assert torch.equal(found.lm_head.weight, model.transformer.wte.weight)


@pytest.mark.parametrize(
    ("cls", "config", "words", "most"),
    [
        ("RobertaModel", "RobertaConfig", TEXT | BERT | SMALL, P - PAD - 1),
        ("OPTForCausalLM", "OPTConfig", TEXT | SMALL | {"hidden_size": D, "ffn_dim": 27,
         "num_hidden_layers": 2, "num_attention_heads": 2, "word_embed_proj_dim": D}, P),
        ("BartForConditionalGeneration", "BartConfig", TEXT | SMALL | {"d_model": D,
         "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 27, "decoder_ffn_dim": 27,
         "decoder_start_token_id": START, "forced_eos_token_id": None}, P),
        ("T5ForConditionalGeneration", "T5Config", TEXT | {"d_model": D, "d_kv": 8, "d_ff": 27,
         "num_layers": 1, "num_heads": 2, "n_positions": 512, "decoder_start_token_id": PAD}, None),
    ],
    ids=["roberta", "opt", "bart", "t5"],
)  # fmt: skip
def test_as_many_tokens_as_there_are_positions(cls, config, words, most, tmp_path):
    model = tv.load(saved(made(cls, config, **words), tmp_path), device="cpu")
    assert model.max_tokens == most
    if most is not None:  # exactly so many run
        target = [START, 5] if model.kind == "encoder-decoder" else None
        tv.trace(model, [5] * most, target=target, check=False)
        with pytest.raises((IndexError, RuntimeError)):
            model.calls.forward(torch.full((1, most + 1), 5), torch.tensor([[START]])
                                if target else None)  # fmt: skip


@pytest.mark.parametrize("name", ["marian", "gpt2", "llama"])
def test_greedy_words_are_those_of_the_library(name, tmp_path):
    model = opened(name, tmp_path)
    ids = IDS[:1, :5]
    fixed = {"do_sample": False, "num_beams": 1, "max_new_tokens": 6}
    theirs = model.module.generate(ids, attention_mask=torch.ones_like(ids), **fixed)[0].tolist()
    given = 1 if name == "marian" else ids.shape[1]
    best = tv.translate(model, ids[0].tolist(), max_tokens=6)[0]
    assert list(best.ids) == theirs[given : given + len(best.ids)]
    assert len(best.ids) == 6 or best.finished


def test_forced_and_banned_words_are_those_of_the_library(tmp_path):
    folder = folder_of(CASES["marian"], "safetensors", tmp_path)
    plain = tv.translate(tv.load(folder, device="cpu"), IDS[0, :5].tolist(), max_tokens=6)[0]
    banned = plain.ids[1] if plain.ids[1] != 0 else plain.ids[0]
    ids = {"decoder_start_token_id": PAD, "eos_token_id": 0, "pad_token_id": PAD}
    generation = ids | {"bad_words_ids": [[PAD], [banned]], "forced_bos_token_id": 21}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    model = tv.load(folder, device="cpu")
    assert model.config["banned_ids"] == [PAD, banned]
    best = tv.translate(model, IDS[0, :5].tolist(), max_tokens=6)[0]
    settings = transformers.GenerationConfig(**generation, do_sample=False, max_new_tokens=6)
    theirs = model.module.generate(IDS[:1, :5], generation_config=settings)[0].tolist()
    assert best.ids[0] == 21 != plain.ids[0]
    assert banned not in best.ids
    assert list(best.ids) == theirs[1 : 1 + len(best.ids)]


@pytest.mark.parametrize("name", ["marian", "bart", "t5", "m2m_100", "fsmt", "mbart"])
def test_encoding_then_decoding_is_the_whole_pass(name):
    from tests.families import table
    from tests.families.catalogue import BY_NAME
    from tests.families.more import MORE

    family = {**BY_NAME, **{f.name: f for f in MORE}}[name]
    model = table.opened(family)
    assert isinstance(model, Model)
    assert model.calls.encode is not None and model.calls.decode is not None
    source = torch.tensor([[5, 11, 17, 36, 9], [8, 30, 3, 0, 0]])
    target = torch.tensor([[1, 4, 9], [1, 13, 6]])
    mask = source != 0
    with torch.inference_mode():
        whole = model.calls.forward(source, target, mask)
        parts = model.calls.decode(target, model.calls.encode(source, mask), mask)
        alone = model.calls.forward(source[1:, :3], target[1:], None)
        without = model.calls.forward(source, target)
    assert torch.allclose(whole, parts, atol=2e-5)
    assert torch.allclose(whole[1:], alone, atol=2e-5)
    assert torch.allclose(whole, without, atol=2e-5)  # padding is hidden where nobody says so


@pytest.mark.parametrize("name", ["nllb_moe", "switch_transformers"])
def test_a_model_that_cannot_be_run_in_two_parts_is_run_whole(name):
    from tests.families import table
    from tests.families.more import MORE

    model = table.opened({f.name: f for f in MORE}[name])
    assert isinstance(model, Model)
    assert model.calls.encode is None and model.calls.decode is None
    ids = [5, 11, 17, 36]
    best = tv.translate(model, ids, max_tokens=4)[0]
    fixed = {"do_sample": False, "num_beams": 1, "max_new_tokens": 4}
    theirs = model.module.generate(torch.tensor([ids]), **fixed)[0].tolist()
    assert list(best.ids) == theirs[1 : 1 + len(best.ids)]


def test_padding_in_the_middle_of_a_text_is_no_position(tmp_path):
    model = opened("llama", tmp_path)
    ids = torch.tensor([[5, 11, PAD, PAD, 9]])
    with torch.inference_mode():
        padded = model.calls.forward(ids)[:, [0, 1, 4]]
        plain = model.calls.forward(ids[:, [0, 1, 4]])
    assert torch.allclose(padded, plain, atol=2e-5)


def test_gradients_and_edits_run_through(tmp_path):
    model = opened("bert", tmp_path)
    off = tv.Intervention.from_json('{"edits": [{"kind": "scale_head", "value": 0, "head": 1}]}')
    clean = tv.trace(model, [5, 6, 7], keep=("weights", "gradients"))
    assert clean.gradients("encoder").shape == (LAYERS, HEADS, 3, 3)
    assert abs(clean.gradients("encoder")).max() > 0
    assert clean.report.output_difference is not None and clean.report.output_difference <= 1e-5
    edited = tv.trace(model, [5, 6, 7], intervention=off)
    assert not edited.attention("encoder")[:, 1].any()


class Closed:
    """A standard input that must not be read."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("stdin was read")


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_no_network_no_question_and_nothing_left_behind(name, tmp_path, monkeypatch, capfd):
    from huggingface_hub import constants

    folder = folder_of(CASES[name], "safetensors", tmp_path)
    log = transformers.utils.logging
    log.enable_progress_bar()
    before = (
        constants.HF_HUB_OFFLINE,
        log.get_verbosity(),
        torch.get_rng_state(),
        random.getstate(),
    )

    def refused(*args: Any, **words: Any) -> Any:
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(sys, "stdin", Closed())
    capfd.readouterr()
    tv.load(folder, device="cpu")
    assert "".join(capfd.readouterr()) == ""
    after = (
        constants.HF_HUB_OFFLINE,
        log.get_verbosity(),
        torch.get_rng_state(),
        random.getstate(),
    )
    assert before[:2] == after[:2] and before[3] == after[3]
    assert torch.equal(before[2], after[2])
    assert log.is_progress_bar_enabled()
    log.disable_progress_bar()


def test_numbers_without_end_are_read_as_the_library_writes_them(tmp_path):
    words = {"head_dim": 10, "mamba_d_ssm": 40, "mamba_n_heads": 4, "mamba_d_head": 10,
             "mamba_d_state": 4, "mamba_chunk_size": 4, "num_key_value_heads": 2}  # fmt: skip
    model = made("FalconH1ForCausalLM", "FalconH1Config", **(TEXT | BERT | SMALL | words))
    folder = saved(model, tmp_path)
    assert "__float__" in (folder / "config.json").read_text()
    found = tv.load(folder, device="cpu")
    assert found.module.config.time_step_limit == model.config.time_step_limit
    assert found.kind == "decoder-only"


def test_maps_whose_rows_do_not_sum_to_one_say_so(tmp_path):
    from tests.families import table
    from tests.families.catalogue import BY_NAME

    model = table.opened(BY_NAME["gpt_oss"])
    assert isinstance(model, Model)
    assert "a learned sink" in model.notes[0]
    words = CASES["llama"].words | {"layer_types": ["linear_attention", "full_attention"] * 2}
    words |= {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
              "num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8}  # fmt: skip
    linear = tv.load(saved(made("MiniMaxForCausalLM", "MiniMaxConfig", **words), tmp_path),
                     device="cpu")  # fmt: skip
    assert "made without a softmax" in linear.notes[0]


def test_the_order_of_layouts_asks_the_config_alone(tmp_path):
    found = Candidate(tmp_path / "not there.safetensors", {"model_type": "bert"})
    assert layout.recognise(found)
    for other in ({}, {"model_type": None}, {"model_type": "vit", "architecture": "vit_tiny"},
                  {"model_type": "x", "layout": "transformer_viz"}):  # fmt: skip
        assert not layout.recognise(Candidate(found.path, other))


def test_the_state_is_read_from_the_file_and_nothing_is_added(tmp_path):
    folder = folder_of(CASES["vit"], "safetensors", tmp_path)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    tv.load(folder, device="cpu")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_classifier_that_reads_its_text_with_both_stacks_gives_classes(tmp_path):
    words = {"d_model": D, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 9, "decoder_ffn_dim": 9}  # fmt: skip
    model = made("BartForSequenceClassification", "BartConfig", **(TEXT | words)).eval()
    found = tv.load(saved(model, tmp_path), device="cpu")
    end = model.config.eos_token_id
    ids = torch.tensor([[5, 7, end]])
    assert (found.gives, found.task) == ("classes", "single_label")
    with torch.inference_mode():
        expected = model(ids).logits[0]
    assert np.allclose(tv.trace(found, [5, 7, end]).logits, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("family", "words", "status"),
    [
        ("Doge", {}, "green"),  # says 16,384 experts, and has none
        ("Doge", {"is_moe": True, "num_experts": 2500, "num_experts_per_tok": 4}, "amber"),
        ("Qwen3Moe", {"mlp_only_layers": [0, 1], "num_experts": 4096}, "green"),
    ],
)
def test_experts_that_cost_no_modules_do_not_close_a_folder(family, words, status, tmp_path):
    """Routing of Doge's experts mixes tokens, as its own code says: that is amber."""
    made = getattr(transformers, f"{family}Config")(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        attn_implementation="eager",
        **words,
    )
    torch.manual_seed(3)
    module = getattr(transformers, f"{family}ForCausalLM")(made).eval()
    module.save_pretrained(tmp_path)
    ids = [3, 17, 5, 29, 8]
    trace = tv.trace(tv.load(tmp_path, device="cpu"), ids)
    with torch.no_grad():
        expected = module(torch.tensor([ids]), output_attentions=True).attentions
    for layer, one in enumerate(expected):
        assert np.abs(trace.attention("decoder", layer=layer) - one[0].numpy()).max() < 1e-6
    assert trace.report.status == status


def test_each_expert_that_is_a_module_of_its_own_counts(tmp_path):
    words = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "num_experts": 2}
    made = transformers.NllbMoeConfig(
        vocab_size=40,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        max_position_embeddings=32,
        expert_capacity=2,
        encoder_sparse_step=1,
        decoder_sparse_step=1,
        **words,
    )
    transformers.NllbMoeForConditionalGeneration(made).save_pretrained(tmp_path)
    words_of(tmp_path, num_experts=10**5)
    with pytest.raises(CheckpointError, match="num_experts=100,000, but the file holds only"):
        tv.load(tmp_path, device="cpu")
