"""Models of the library with two stacks or two vocabularies, and tokenizers of more tokens."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import transformer_viz as tv
from tests.support.two_vocabularies import SOURCE, TARGET, WIDTH
from transformer_viz.checkpoints import CheckpointError

from .test_vocabularies import (
    BY_IDS,
    IDS,
    TEXT,
    WORDS,
    WRITTEN,
    labels,
    sentencepiece_file,
    word_level,
)

SMALL: dict[str, Any] = {"num_attention_heads": 2, "intermediate_size": 12}
BERT = SMALL | {"max_position_embeddings": 32, "initializer_range": 0.4}
CROSS = {"is_decoder": True, "add_cross_attention": True}
FEW = ["<unk>", "<s>", "</s>", "the", "cat", "sat", "on", "mat"]


def gpt2(size: int, rows: int, **more: Any) -> Any:
    words = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": rows}
    return transformers.GPT2Config(vocab_size=size, **words, **more)


def bert(size: int, width: int = 8, layers: int = 1, **more: Any) -> Any:
    words = {"vocab_size": size, "hidden_size": width, "num_hidden_layers": layers}
    return transformers.BertConfig(**words, **BERT, **more)


@pytest.mark.slow
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


def small_tokenizer(*added: str) -> Any:
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(FEW)}, unk_token="<unk>"))
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
    given = small_tokenizer("<|im_start|>", "plain")
    module = gpt2_folder(tmp_path, len(FEW))
    given.save_pretrained(tmp_path)
    for model in (tv.load(tmp_path, device="cpu"), tv.load(module, tokenizer=given)):
        trace = tv.trace(model, "the cat sat", check=False)
        assert trace.source.labels == ("the", "cat", "sat")
        assert any("does not know ([PAD], <|im_start|>, plain)" in note for note in model.notes)
        with pytest.raises(ValueError, match="the id 8; this model knows ids from 0 to 7"):
            tv.trace(model, "the [PAD] cat", check=False)
    gpt2_folder(tmp_path, len(FEW) - 3)  # a tokenizer of another model is still refused
    with pytest.raises(CheckpointError, match="they do not belong together"):
        tv.load(tmp_path, device="cpu")


# ---- a vocabulary of each side ----

MARIAN = {
    "d_model": WIDTH,
    **{f"{side}_{word}": size for side in ("encoder", "decoder")
       for word, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", WIDTH))},
    "max_position_embeddings": 32,
}  # fmt: skip


def marked(words: tuple[str, ...]) -> list[str]:
    return ["<pad>", "</s>", "<unk>", *(f"▁{word}" for word in words[4:])]


def marian(folder: Path) -> Path:
    """A Marian folder with a vocabulary of each side, as save_pretrained writes it."""
    folder.mkdir()
    plain = {"pad_id": 0, "bos_id": -1, "eos_id": 1, "unk_id": 2}
    for name, file, words in (("source", "vocab", SOURCE), ("target", "target_vocab", TARGET)):
        listed = tuple(marked(words))
        bare = tuple(word.removeprefix("▁") for word in listed)
        sentencepiece_file(folder / f"{name}.spm", bare, **plain)
        ids = {word: i for i, word in enumerate(listed)}
        (folder / f"{file}.json").write_text(json.dumps(ids))
    words = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": True, "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(words))
    config = transformers.MarianConfig(
        vocab_size=len(marked(SOURCE)), decoder_vocab_size=len(marked(TARGET)),
        share_encoder_decoder_embeddings=False, tie_word_embeddings=False, pad_token_id=0,
        eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=None, **MARIAN,
    )  # fmt: skip
    transformers.MarianMTModel(config).eval().save_pretrained(folder)
    return folder


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marian_with_separate_vocabularies(tmp_path: Path) -> None:
    folder = marian(tmp_path / "opus")
    own = transformers.MarianTokenizer.from_pretrained(folder)
    trace = tv.trace(tv.load(folder, device="cpu"), TEXT, WRITTEN, check=False)
    assert list(trace.source.ids) == own(TEXT)["input_ids"]
    assert list(trace.target.ids)[1:] == own(text_target=WRITTEN)["input_ids"][:-1]
    assert trace.source.labels == (*TEXT.split(), "</s>")
    assert trace.target.labels == ("<pad>", *WRITTEN.split())
    model = tv.load(folder, device="cpu")
    assert model.tokenizer.target.decode(trace.target.ids) == own.decode(trace.target.ids[1:])
    memory = transformers.MarianMTModel.from_pretrained(folder)
    one = transformers.PreTrainedTokenizerFast(tokenizer_object=word_level(SOURCE))
    assert labels(tv.load(memory, tokenizer=own))[1] == ("<pad>", *WRITTEN.split())
    with pytest.raises(CheckpointError, match="has 11 pieces, but the model knows 10"):
        tv.load(memory, tokenizer=one)


def test_fsmt_looks_its_target_up_among_the_targets_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Moses:
        """Stands in for sacremoses, which cuts these texts at their spaces too."""

        def __init__(self, lang: str = "") -> None: ...

        normalize = staticmethod(str)
        tokenize = staticmethod(lambda text, **_: text.split())
        detokenize = staticmethod(" ".join)

    module: Any = types.ModuleType("sacremoses")
    module.MosesPunctNormalizer = module.MosesTokenizer = module.MosesDetokenizer = Moses
    monkeypatch.setitem(sys.modules, "sacremoses", module)
    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    merges: list[str] = []
    for name, words in (("src", SOURCE), ("tgt", TARGET)):
        ids = {w: i for i, w in enumerate([*marks, *(f"{word}</w>" for word in words[4:])])}
        (tmp_path / f"{name}.json").write_text(json.dumps(ids))
        for word in sorted(words[4:], key=len, reverse=True):
            parts = [*word[:-1], f"{word[-1]}</w>"]
            merges += [f"{''.join(parts[:n])} {parts[n]}" for n in range(1, len(parts))]
    (tmp_path / "merges.txt").write_text("\n".join(dict.fromkeys(merges)) + "\n")
    names = {"src_vocab": "src.json", "tgt_vocab": "tgt.json", "merges": "merges.txt"}
    files = {f"{role}_file": str(tmp_path / name) for role, name in names.items()}
    own = transformers.FSMTTokenizer(langs=["en", "de"], **files)
    sizes = {"src_vocab_size": len(SOURCE), "tgt_vocab_size": len(TARGET)}
    sizes |= {"decoder": {"vocab_size": len(TARGET)}}
    config = transformers.FSMTConfig(langs=["en", "de"], **sizes, **MARIAN)
    model = tv.load(transformers.FSMTForConditionalGeneration(config), tokenizer=own)
    assert labels(model) == ((*TEXT.split(), "</s>"), ("</s>", *WRITTEN.split()))
    assert model.tokenizer.decode([4, 5, 6]) == TEXT
    assert model.tokenizer.target.decode([5, 9, 8]) == WRITTEN


def test_a_model_put_together_of_two_has_a_tokenizer_of_each() -> None:
    def made(rows: int) -> Any:
        config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(
            bert(len(SOURCE)), bert(rows, **CROSS)
        )
        config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 1, 0, 2
        return transformers.EncoderDecoderModel(config).eval()

    both = tv.load(made(len(TARGET)), tokenizer=word_level(SOURCE), target_tokenizer=TARGET)
    assert labels(both) == WORDS
    one = tv.load(made(len(TARGET)), tokenizer=SOURCE)
    assert labels(one, IDS) == (WORDS[0], BY_IDS) and "target_tokenizer=" in one.notes[-1]
    alike = tv.load(made(len(SOURCE)), tokenizer=SOURCE)
    assert labels(alike, "the cat")[1] == ("<sos>", "the", "cat")


def test_a_family_with_one_vocabulary_takes_any_list() -> None:
    words = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(vocab_size=11, **words, decoder_start_token_id=0)
    t5 = tv.load(transformers.T5ForConditionalGeneration(config), tokenizer=SOURCE)
    assert labels(t5, "the cat") == (WORDS[0], ("<pad>", "the", "cat")) and not t5.notes
    gpt = transformers.GPT2LMHeadModel(gpt2(11, 16))
    model = tv.load(gpt, tokenizer=word_level(SOURCE))
    assert tv.trace(model, TEXT, check=False).source.labels == WORDS[0]
    assert (model.bos_id, model.eos_id) == (1, 2)  # the config's 50256 is no token of this model
    with pytest.raises(CheckpointError, match="one side only"):
        tv.load(gpt, tokenizer=SOURCE, target_tokenizer=TARGET)
