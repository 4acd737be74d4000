"""Models of the library made of two others, and tokenizers with more tokens than their model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError

SMALL: dict[str, Any] = {"num_attention_heads": 2, "intermediate_size": 12}
BERT = SMALL | {"max_position_embeddings": 32, "initializer_range": 0.4}
CROSS = {"is_decoder": True, "add_cross_attention": True}
WORDS = ["<unk>", "<s>", "</s>", "the", "cat", "sat", "on", "mat"]


def gpt2(size: int, rows: int, **more: Any) -> Any:
    words = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": rows}
    return transformers.GPT2Config(vocab_size=size, **words, **more)


def bert(size: int, width: int = 8, layers: int = 1, **more: Any) -> Any:
    words = {"vocab_size": size, "hidden_size": width, "num_hidden_layers": layers}
    return transformers.BertConfig(**words, **BERT, **more)


def test_an_encoder_and_a_decoder_of_two_models_write_what_the_library_writes(tmp_path):
    pairs = {
        "two BERTs": (bert(30), bert(30, layers=2, **CROSS), (30, 30, 2, 32)),
        "two vocabularies": (bert(30), bert(45, **CROSS), (30, 45, 1, 32)),
        "two widths": (bert(30), bert(30, 12, **CROSS), (30, 30, 1, 32)),
        "BERT and GPT-2": (bert(30), gpt2(40, 24, add_cross_attention=True), (30, 40, 1, 24)),
    }
    ids, target = [4, 11, 25, 5], [2, 7, 9]
    for name, (encoder, decoder, sizes) in pairs.items():
        torch.manual_seed(0)
        config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
        module = transformers.EncoderDecoderModel(config).eval()
        rules = {"decoder_start_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
        module.generation_config.update(**rules)
        module.save_pretrained(tmp_path / name)
        source = torch.tensor([ids])
        written = module.generate(source, max_new_tokens=5, num_beams=1, do_sample=False)
        with torch.inference_mode():
            logits = module(input_ids=source, decoder_input_ids=torch.tensor([target])).logits[0]
        for thing in (module, tmp_path / name):
            model = tv.load(thing, device="cpu")
            trace = tv.trace(model, ids, target=target, check=thing is module)
            words = ("source_vocab", "target_vocab", "decoder_layers")
            assert (*(model.config[w] for w in words), model.max_tokens) == sizes, name
            assert list(tv.translate(model, ids, max_tokens=5)[0].ids) == written[0, 1:].tolist()
            assert np.allclose(trace.logits, logits, atol=1e-5), name
            assert thing is not module or trace.report.status == "green", name


def test_a_model_that_reads_a_picture_and_writes_names_its_parts(tmp_path):
    words = {"hidden_size": 8, "num_hidden_layers": 1, "image_size": 16, "patch_size": 8}
    vit = transformers.ViTConfig(**words, **SMALL)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        vit, gpt2(40, 24, add_cross_attention=True)
    )
    transformers.VisionEncoderDecoderModel(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"reads a picture and writes a text.*part=encoder"):
        tv.load(tmp_path, device="cpu")
    assert tv.load(tmp_path, device="cpu", part="encoder").takes == "image"


def tokenizer(*added: str) -> Any:
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **marks)
    made.add_special_tokens({"pad_token": "[PAD]"})
    made.add_tokens(list(added))
    return made


def gpt2_folder(folder: Path, size: int) -> Any:
    config = gpt2(size, 16, bos_token_id=1, eos_token_id=2)
    module = transformers.GPT2LMHeadModel(config).eval()
    module.save_pretrained(folder)
    return module


def test_tokens_that_were_added_and_never_used_are_a_note(tmp_path):
    given = tokenizer("<|im_start|>", "plain")
    module = gpt2_folder(tmp_path, len(WORDS))
    given.save_pretrained(tmp_path)
    for model in (tv.load(tmp_path, device="cpu"), tv.load(module, tokenizer=given)):
        trace = tv.trace(model, "the cat sat", check=False)
        assert trace.source.labels == ("the", "cat", "sat")
        assert any("does not know ([PAD], <|im_start|>, plain)" in note for note in model.notes)
        with pytest.raises(ValueError, match="the id 8; this model knows ids from 0 to 7"):
            tv.trace(model, "the [PAD] cat", check=False)
    gpt2_folder(tmp_path, len(WORDS) - 3)  # a tokenizer of another model is still refused
    with pytest.raises(CheckpointError, match="they do not belong together"):
        tv.load(tmp_path, device="cpu")
