"""Folders of the transformers library: words, classes, decoding, and nothing left behind.

`test_table.py` compares attention and logits with witnesses, `tests/families` with the library.
"""

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
from huggingface_hub import constants

import transformer_viz as tv
from tests.families import table
from tests.families.catalogue import BY_NAME
from tests.families.more import MORE
from transformer_viz.checkpoints import CheckpointError, Model
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.hugging_face import layout

from .hugging_face import (
    BERT,
    CASES,
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
    saved,
)
from .opening import opens, refused, reworded

SMALL = {"max_position_embeddings": P}
BART = TEXT | {"d_model": D, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 27,
               "decoder_ffn_dim": 27, "encoder_attention_heads": 2,
               "decoder_attention_heads": 2}  # fmt: skip
FAMILIES = BY_NAME | {family.name: family for family in MORE}


def folder(name: str, place: Path) -> Path:
    return folder_of(CASES[name], "safetensors", place)


def opened(name: str, place: Path, **words: Any) -> Model:
    return tv.load(folder(name, place), device="cpu", **words)


def built(cls: str, config: str, place: Path, **words: Any) -> Model:
    """Save a model of the library and open it."""
    return tv.load(saved(made(cls, config, **words), place), device="cpu")


def test_a_model_says_what_it_is(tmp_path):
    for name, kind, takes, gives in (
        ("bert", "encoder-only", "text", "words"),
        ("gpt2", "decoder-only", "text", "words"),
        ("llama", "decoder-only", "text", "words"),
        ("marian", "encoder-decoder", "text", "words"),
        ("vit", "encoder-only", "image", "classes"),
    ):
        place = folder(name, tmp_path / name)
        model = opens(place, layout="hugging_face", kind=kind, takes=takes, gives=gives, name=name,
                      folder=place, dtype="float32", file_dtype="float32", heads=HEADS, d_model=D,
                      encoder_layers=0 if kind == "decoder-only" else LAYERS,
                      decoder_layers=0 if kind == "encoder-only" else LAYERS)  # fmt: skip
        assert len(model.hash) == 64 and not model.module.training, name
        json.dumps(model.config)


def test_origins_and_overrides(tmp_path):
    place = folder("gpt2", tmp_path)
    for word in ("heads", "n_head"):
        model = opens(place, {word: 4}, heads=4, origin={"heads": "override"})
        maps = tv.trace(model, [4, 5, 6], check=False).attention("decoder")
        assert maps.shape == (LAYERS, 4, 3, 3), word
    ids = {"pad_id": 7, "eos_id": 9}
    origin = dict.fromkeys(ids, "override")
    model = opens(place, {**ids, "max_tokens": 5}, **ids, max_tokens=5, origin=origin)
    with pytest.raises(ValueError, match="reads at most 5"):
        tv.trace(model, [4] * 6)
    refused(place, "no word 'hedas'; it knows d_model, heads", hedas=3)
    refused(place, "heads is int in this config; got '3'", heads="3")
    refused(place, "norm_eps is float", norm_eps=True)
    config = json.loads((place / "config.json").read_text())
    with pytest.raises(CheckpointError, match="device"):
        layout.open(Candidate(place / "model.safetensors", config), None, {"device": "cpu"})
    reworded(place, layer_norm_epsilon=None)  # the library's value is meant
    origin = {"norm_eps": "layout", "heads": "file", "encoder_layers": "layout"}
    opens(place, norm_eps=1e-05, origin=origin)
    both = opened("marian", tmp_path / "marian", heads=5)
    trace = tv.trace(both, IDS[0].tolist(), target=TARGET[0].tolist(), check=False)
    assert {trace.attention(b).shape[1] for b in ("encoder", "decoder", "cross")} == {5}


def test_as_many_tokens_as_there_are_positions(tmp_path):
    for cls, config, words, most in (
        ("RobertaModel", "RobertaConfig", TEXT | BERT | SMALL, P - PAD - 1),
        ("OPTForCausalLM", "OPTConfig", TEXT | SMALL | {"hidden_size": D, "ffn_dim": 27,
         "num_hidden_layers": 2, "num_attention_heads": 2, "word_embed_proj_dim": D}, P),
        ("BartForConditionalGeneration", "BartConfig", BART | SMALL | {
         "decoder_start_token_id": START, "forced_eos_token_id": None}, P),
        ("T5ForConditionalGeneration", "T5Config", TEXT | {"d_model": D, "d_kv": 8, "d_ff": 27,
         "num_layers": 1, "num_heads": 2, "n_positions": 512, "decoder_start_token_id": PAD}, None),
    ):  # fmt: skip
        model = built(cls, config, tmp_path / cls, **words)
        assert model.max_tokens == most, cls
        if most is not None:  # exactly so many run
            target = [START, 5] if model.kind == "encoder-decoder" else None
            tv.trace(model, [5] * most, target=target, check=False)
            forced = torch.tensor([[START]]) if target else None
            with pytest.raises((IndexError, RuntimeError)):
                model.calls.forward(torch.full((1, most + 1), 5), forced)


def test_the_order_of_layouts_asks_the_config_alone(tmp_path):
    path = tmp_path / "not there.safetensors"
    assert layout.recognise(Candidate(path, {"model_type": "bert"}))
    for other in ({}, {"model_type": None}, {"model_type": "vit", "architecture": "vit_tiny"},
                  {"model_type": "x", "layout": "transformer_viz"}):  # fmt: skip
        assert not layout.recognise(Candidate(path, other)), other


def test_numbers_without_end_are_read_as_the_library_writes_them(tmp_path):
    words = {"head_dim": 10, "mamba_d_ssm": 40, "mamba_n_heads": 4, "mamba_d_head": 10,
             "mamba_d_state": 4, "mamba_chunk_size": 4, "num_key_value_heads": 2}  # fmt: skip
    model = made("FalconH1ForCausalLM", "FalconH1Config", **(TEXT | BERT | SMALL | words))
    place = saved(model, tmp_path)
    assert "__float__" in (place / "config.json").read_text()
    found = opens(place, kind="decoder-only")
    assert found.module.config.time_step_limit == model.config.time_step_limit


@pytest.mark.slow
def test_the_class_is_found_by_the_weights_where_none_is_named(tmp_path):
    bert = ("BertConfig", TEXT | BERT | SMALL)
    for cls, (config, words), gives in (
        ("BertForMaskedLM", bert, "words"),
        ("BertForSequenceClassification", bert, "classes"),
        ("BertModel", bert, "vectors"),
        ("LlamaForCausalLM", ("LlamaConfig", CASES["llama"].words), "words"),
        ("LlamaModel", ("LlamaConfig", CASES["llama"].words), "vectors"),
        ("ViTForImageClassification", ("ViTConfig", CASES["vit"].words), "classes"),
        ("MarianMTModel", ("MarianConfig", CASES["marian"].words), "words"),
    ):
        place = saved(made(cls, config, **words), tmp_path / cls)
        reworded(place, architectures=None)
        assert type(opens(place, gives=gives).module).__name__ == cls
    model = made("BertForQuestionAnswering", bert[0], **bert[1])
    place = saved(model, tmp_path / "ends of an answer")
    opens(place, gives="spans", labels=(), notes=())


def test_the_classes_of_words_are_named(tmp_path):
    names = ("O", "B-PER", "B-LOC")
    words = TEXT | BERT | SMALL | {"id2label": dict(enumerate(names)),
                                   "label2id": {n: i for i, n in enumerate(names)}}  # fmt: skip
    place = saved(made("BertForTokenClassification", "BertConfig", **words), tmp_path)
    model = opens(place, gives="tags", labels=names, notes=())
    ids = [5, 11, 17, 36]
    trace = tv.trace(model, ids)
    with torch.inference_mode():
        logits = model.module(torch.tensor([ids])).logits[0]
    assert np.allclose(trace.logits, logits, atol=1e-6)
    best = [names[i] for i in logits.argmax(-1)]
    assert trace.produced.pieces == tuple(best)
    labels = zip(trace.source.labels, best, strict=True)
    assert trace.produced.labels == tuple(f"{word}: {name}" for word, name in labels)
    assert np.allclose(trace.produced.probability, logits.softmax(-1).max(-1).values, atol=1e-6)
    assert tv.trace(model, ids, produced=[2, 2, 0, 1]).produced.pieces[3] == "B-PER"
    with pytest.raises(ValueError, match="a class for each of 4 tokens, numbers from 0 to 2"):
        tv.trace(model, ids, produced=[3, 0, 0, 0])
    kept = tv.trace(model, ids, keep=("gradients",), check=False).gradients("encoder")
    assert abs(kept).max() > 0


def test_a_classifier_that_reads_its_text_with_both_stacks_gives_classes(tmp_path):
    model = made("BartForSequenceClassification", "BartConfig", **BART)
    found = opens(saved(model, tmp_path), gives="classes", task="single_label")
    ids = [5, 7, model.config.eos_token_id]
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0]
    assert np.allclose(tv.trace(found, ids, check=False).logits, expected, atol=1e-6)


def test_a_file_of_the_bare_model_with_its_output_tied_opens_whole(tmp_path):
    model = made("GPT2LMHeadModel", "GPT2Config", **CASES["gpt2"].words)
    place = saved(model.transformer, tmp_path)
    reworded(place, architectures=["GPT2LMHeadModel"])
    found = tv.load(place, device="cpu").module
    assert torch.equal(found.lm_head.weight, model.transformer.wte.weight)


def generated(model: Model, ids: list[int], **settings: Any) -> list[int]:
    """Return the library's own greedy ids, those given included."""
    settings = {"do_sample": False, "num_beams": 1} | settings
    given = torch.tensor([ids])
    found = model.module.generate(given, attention_mask=torch.ones_like(given), **settings)
    return found[0].tolist()


def test_greedy_words_are_those_of_the_library(tmp_path):
    ids = IDS[0, :5].tolist()
    models = {name: opened(name, tmp_path / name) for name in ("marian", "gpt2", "llama")}
    for name in ("nllb_moe", "switch_transformers"):  # these cannot be run in two parts
        models[name] = table.opened(FAMILIES[name])
        assert models[name].calls.encode is None and models[name].calls.decode is None, name
    for name, model in models.items():
        theirs = generated(model, ids, max_new_tokens=6)
        given = 1 if model.kind == "encoder-decoder" else len(ids)
        best = tv.translate(model, ids, max_tokens=6)[0]
        assert list(best.ids) == theirs[given : given + len(best.ids)], name
        assert len(best.ids) == 6 or best.finished, name


def test_forced_and_banned_words_are_those_of_the_library(tmp_path):
    place, ids = folder("marian", tmp_path), IDS[0, :5].tolist()
    plain = tv.translate(tv.load(place, device="cpu"), ids, max_tokens=6)[0]
    banned = plain.ids[1] if plain.ids[1] != 0 else plain.ids[0]
    generation = {"decoder_start_token_id": PAD, "eos_token_id": 0, "pad_token_id": PAD,
                  "bad_words_ids": [[PAD], [banned]], "forced_bos_token_id": 21}  # fmt: skip
    (place / "generation_config.json").write_text(json.dumps(generation))
    model = opens(place, banned_ids=[PAD, banned])
    best = tv.translate(model, ids, max_tokens=6)[0]
    settings = transformers.GenerationConfig(**generation, do_sample=False, max_new_tokens=6)
    theirs = model.module.generate(IDS[:1, :5], generation_config=settings)[0].tolist()
    assert best.ids[0] == 21 != plain.ids[0]
    assert banned not in best.ids
    assert list(best.ids) == theirs[1 : 1 + len(best.ids)]


def test_encoding_then_decoding_is_the_whole_pass():
    source = torch.tensor([[5, 11, 17, 36, 9], [8, 30, 3, 0, 0]])
    target = torch.tensor([[1, 4, 9], [1, 13, 6]])
    mask = source != 0
    for name in ("marian", "bart", "t5", "m2m_100", "fsmt", "mbart"):
        calls = table.opened(FAMILIES[name]).calls
        with torch.inference_mode():
            whole = calls.forward(source, target, mask)
            parts = calls.decode(target, calls.encode(source, mask), mask)
            alone = calls.forward(source[1:, :3], target[1:], None)
            without = calls.forward(source, target)  # padding is hidden where no mask is given
        for one, other in ((whole, parts), (whole[1:], alone), (whole, without)):
            assert torch.allclose(one, other, atol=2e-5), name


def test_padding_in_the_middle_of_a_text_is_no_position(tmp_path):
    model = opened("llama", tmp_path)
    ids = torch.tensor([[5, 11, PAD, PAD, 9]])
    with torch.inference_mode():
        padded = model.calls.forward(ids)[:, [0, 1, 4]]
        plain = model.calls.forward(ids[:, [0, 1, 4]])
    assert torch.allclose(padded, plain, atol=2e-5)


def test_maps_whose_rows_do_not_sum_to_one_say_so(tmp_path):
    assert "a learned sink" in table.opened(FAMILIES["gpt_oss"]).notes[0]
    words = {"layer_types": ["linear_attention", "full_attention"] * 2, "hidden_size": 16,
             "intermediate_size": 24, "num_hidden_layers": 4, "num_local_experts": 2,
             "num_experts_per_tok": 1, "head_dim": 8}  # fmt: skip
    words = CASES["llama"].words | words
    linear = built("MiniMaxForCausalLM", "MiniMaxConfig", tmp_path, **words)
    assert "made without a softmax" in linear.notes[0]


@pytest.mark.slow
def test_experts_that_cost_no_modules_do_not_close_a_folder(tmp_path):
    """Routing of Doge's experts mixes tokens, as its own code says: that is amber."""
    ids = [3, 17, 5, 29, 8]
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
             "attn_implementation": "eager"}  # fmt: skip
    for case, family, words, status in (
        ("says 16,384 experts, and has none", "Doge", {}, "green"),
        ("2,500 experts without modules", "Doge",
         {"is_moe": True, "num_experts": 2500, "num_experts_per_tok": 4}, "amber"),
        ("no layer has experts", "Qwen3Moe",
         {"mlp_only_layers": [0, 1], "num_experts": 4096}, "green"),
    ):  # fmt: skip
        config = getattr(transformers, f"{family}Config")(**sizes, **words)
        torch.manual_seed(3)
        module = getattr(transformers, f"{family}ForCausalLM")(config).eval()
        trace = tv.trace(tv.load(saved(module, tmp_path / case), device="cpu"), ids)
        with torch.no_grad():
            expected = module(torch.tensor([ids]), output_attentions=True).attentions
        for layer, one in enumerate(expected):
            found = trace.attention("decoder", layer=layer)
            assert np.abs(found - one[0].numpy()).max() < 1e-6, (case, layer)
        assert trace.report.status == status, case


def test_each_expert_that_is_a_module_of_its_own_counts(tmp_path):
    words = BART | {"encoder_layers": 2, "decoder_layers": 2, "num_experts": 2,
                    "expert_capacity": 2, "encoder_sparse_step": 1,
                    "decoder_sparse_step": 1}  # fmt: skip
    place = saved(made("NllbMoeForConditionalGeneration", "NllbMoeConfig", **words), tmp_path)
    reworded(place, num_experts=10**5)
    refused(place, "num_experts=100,000, but the file holds only")


class Closed:
    """A standard input that must not be read."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("stdin was read")


def test_no_network_no_question_and_nothing_left_behind(tmp_path, monkeypatch, capfd):
    log = transformers.utils.logging

    def state() -> list[Any]:
        generator = torch.get_rng_state().tolist()
        return [constants.HF_HUB_OFFLINE, log.get_verbosity(), generator, random.getstate()]

    def network(*args: Any, **words: Any) -> Any:
        raise AssertionError("a socket was asked for")

    folders = [folder(name, tmp_path / name) for name in ("bert", "vit")]
    monkeypatch.setattr(socket, "socket", network)
    monkeypatch.setattr(sys, "stdin", Closed())
    log.enable_progress_bar()
    capfd.readouterr()
    for place in folders:
        files = {path.name: path.read_bytes() for path in place.iterdir()}
        before = state()
        tv.load(place, device="cpu")
        assert "".join(capfd.readouterr()) == "", place
        assert state() == before, place
        assert log.is_progress_bar_enabled(), place
        assert {path.name: path.read_bytes() for path in place.iterdir()} == files, place
    log.disable_progress_bar()
