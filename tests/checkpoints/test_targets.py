"""Targets of Hugging Face models, given and written, against the library's own."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

import transformer_viz as tv
from transformer_viz.checkpoints.files.errors import CheckpointError
from transformer_viz.opening.tokenizer_job import _facts, _used
from transformer_viz.preprocessing.elsewhere import RemoteTokenizer
from transformer_viz.preprocessing.hugging_face import HuggingFaceText

SOURCE, TARGET = "the small dog", "ein kleiner hund"
WORDS = f"{SOURCE} {TARGET}".split()
IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
SIZES = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 64,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
         "decoder_ffn_dim": 64, "init_std": 0.4, "forced_eos_token_id": None}  # fmt: skip
SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def speaks(name: str, **words: Any) -> Any:
    """A translator's tokenizer of a few words, with all languages of its class."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(f"▁{word}" for word in WORDS)]
    if name != "NllbTokenizer":
        vocabulary: Any = [(piece, -float(number)) for number, piece in enumerate(pieces)]
        return getattr(transformers, name)(vocab=vocabulary, **words)
    core = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=90, special_tokens=pieces[:4])
    core.train_from_iterator([SOURCE, TARGET] * 20, trainer)
    made = json.loads(core.to_str())["model"]
    merges = [tuple(pair) for pair in made["merges"]]
    return transformers.NllbTokenizer(vocab=made["vocab"], merges=merges, **words)


def framed(*around: str, single: str) -> Any:
    """A tokenizer of whole words that puts ``single`` around them."""
    known = {piece: number for number, piece in enumerate([*SPECIAL.values(), *WORDS])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single=single, special_tokens=[(piece, known[piece]) for piece in around]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **SPECIAL)


def translator(name: str, size: int, **words: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(vocab_size=size, **IDS, **SIZES | words)
    classes = (f"{name}ForConditionalGeneration", f"{name}MTModel")
    return next(getattr(transformers, c) for c in classes if hasattr(transformers, c))(
        config
    ).eval()


def opened(module: Any, tokenizer: Any, folder: Path, **words: Any) -> dict[str, tv.Model]:
    """The module in memory, and from its folder."""
    module.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    memory = tv.load(module, tokenizer=tokenizer, device="cpu", **words)
    return {"memory": memory, "folder": tv.load(folder, device="cpu", **words)}


def written(module: Any, ids: list[int], **words: Any) -> list[int]:
    """What the library's greedy search adds."""
    given = torch.tensor([ids])
    fixed = {"do_sample": False, "num_beams": 1, "max_new_tokens": 12} | words
    found = module.generate(given, attention_mask=torch.ones_like(given), **fixed)[0].tolist()
    return found[1 if module.config.is_encoder_decoder else len(ids) :]


@pytest.mark.slow
def test_a_given_text_reads_what_the_library_trains_on(tmp_path):
    nllb = {"src_lang": "eng_Latn", "tgt_lang": "deu_Latn"}
    mbart = {"src_lang": "en_XX", "tgt_lang": "de_DE"}
    start = {"decoder_start_token_id": 2}
    cases: list[tuple[str, Any, dict[str, Any], int]] = [
        ("M2M100", speaks("NllbTokenizer", **nllb), start, 0),
        ("M2M100", speaks("NllbTokenizer", src_lang="eng_Latn"), start, 0),  # takes the source's
        ("MBart", speaks("MBart50Tokenizer", **mbart), start, 0),
        ("MBart", speaks("MBartTokenizer", **mbart), {}, 1),  # its training wraps the language
        ("Bart", framed("<s>", "</s>", single="<s> $A </s>"), start, 0),
        ("Marian", framed("</s>", single="$A </s>"), {"decoder_start_token_id": 1}, 0),
    ]
    for number, (name, tokenizer, words, ends) in enumerate(cases):
        labels = copy.deepcopy(tokenizer)(text_target=TARGET, return_tensors="pt").input_ids
        module = translator(name, len(tokenizer), **words)
        if hasattr(module, "prepare_decoder_input_ids_from_labels"):
            read = module.prepare_decoder_input_ids_from_labels(labels)[0].tolist()
        else:
            read = [2, *labels[0, :-1].tolist()]
        trained = read[: len(read) - ends]  # mBART's training reads the end token too
        for place, model in opened(module, tokenizer, tmp_path / str(number)).items():
            case = f"{name} {number} from {place}"
            given = tv.trace(model, SOURCE, TARGET, check=False)
            assert list(given.target.ids) == trained, case
            assert given.target.special[0], case
            scored = tv.translate(model, SOURCE, target=TARGET)[0]
            assert list(scored.ids) == [*trained[1:], 2], case
            assert scored.text == TARGET, case


@pytest.mark.slow
def test_the_first_token_that_is_forced_stands_in_a_given_text_too(tmp_path):
    tokenizer = speaks("NllbTokenizer", src_lang="eng_Latn", tgt_lang="deu_Latn")
    french = tokenizer.convert_tokens_to_ids("fra_Latn")
    module = translator("M2M100", len(tokenizer), decoder_start_token_id=2)
    module.generation_config.forced_bos_token_id = french
    bare = tokenizer(TARGET, add_special_tokens=False).input_ids
    for place, model in opened(module, tokenizer, tmp_path).items():
        free, given = tv.trace(model, SOURCE), tv.trace(model, SOURCE, TARGET, check=False)
        assert list(given.target.ids) == [2, french, *bare], place
        assert free.target.ids[:2] == given.target.ids[:2], place
        own = written(module, list(free.source.ids))
        best = tv.translate(model, SOURCE, max_tokens=12)[0]
        assert list(best.ids) == own, place
        again = tv.translate(model, SOURCE, target=[2, *best.ids])[0]
        assert again.steps == pytest.approx(best.steps, abs=1e-5), place
        assert any("fra_Latn, as its generation_config says" in note for note in model.notes)


def test_the_target_language_is_said_on_loading(tmp_path):
    tokenizer = speaks("NllbTokenizer", src_lang="eng_Latn")
    german = tokenizer.convert_tokens_to_ids("deu_Latn")
    module = translator("M2M100", len(tokenizer), decoder_start_token_id=2)
    for place, model in opened(module, tokenizer, tmp_path, tgt_lang="deu_Latn").items():
        assert tv.trace(model, SOURCE, TARGET, check=False).target.ids[:2] == (2, german), place
        own = written(module, tokenizer(SOURCE).input_ids, forced_bos_token_id=german)
        assert list(tv.translate(model, SOURCE, max_tokens=12)[0].ids) == own, place
        assert model.provenance["forced_bos_token_id"] == "override", place
        assert not model.notes, place
    silent = tv.load(tmp_path, device="cpu")
    assert any("names no target language" in note for note in silent.notes)
    with pytest.raises(CheckpointError, match="has no language 'German'"):
        tv.load(tmp_path, device="cpu", tgt_lang="German")
    old = speaks("MBartTokenizer", src_lang="en_XX", tgt_lang="de_DE")
    wraps = translator("MBart", len(old))
    french = old.convert_tokens_to_ids("fr_XX")
    model = tv.load(wraps, tokenizer=old, device="cpu", tgt_lang="fr_XX")
    assert model.bos_id == french == tv.trace(model, SOURCE, TARGET, check=False).target.ids[0]
    plain = translator("Bart", 40)
    with pytest.raises(CheckpointError, match="tgt_lang is for translators"):
        tv.load(plain, tokenizer=framed("</s>", single="$A </s>"), tgt_lang="de_DE")


def test_a_tokenizer_elsewhere_frames_targets_alike():
    for language in ("deu_Latn", None):
        local = speaks("NllbTokenizer", src_lang="eng_Latn", tgt_lang=language)

        def ask(do: str, tokenizer: Any = local, **request: Any) -> dict[str, Any]:
            return _used(tokenizer, {"do": do, **request})

        words = {"start_id": 2, "framed": True, "end_ids": (2,)}
        far = HuggingFaceText(RemoteTokenizer(ask, _facts(local)), **words)
        near = HuggingFaceText(speaks("NllbTokenizer", src_lang="eng_Latn", tgt_lang=language))
        assert far.language == near.language == language
        assert far.frame() == near.frame()
        assert near.language == language  # looking changes nothing
        assert far.target_ids(TARGET) == [2, *far.frame()[0], *near.piece_ids(TARGET)]


@pytest.mark.slow
def test_each_rule_of_generate_is_followed_from_memory_and_folder(tmp_path):
    torch.manual_seed(0)
    gpt = transformers.GPT2Config(vocab_size=40, n_embd=32, n_layer=1, n_head=4, bos_token_id=0,
                                  eos_token_id=2, initializer_range=0.5)  # fmt: skip
    modules = {
        "bart": translator("Bart", 40, decoder_start_token_id=2),
        "gpt2": transformers.GPT2LMHeadModel(gpt).eval(),
    }
    sources = [[0, 11, 25, 37, 2], [0, 30, 31, 32, 9]]
    for name, module in modules.items():
        plain = [written(module, source) for source in sources]
        text = plain[0]
        module.generation_config.eos_token_id = text[5]
        ended = [written(module, source) for source in sources]
        at = {"suppress_tokens": text[:3], "bad_words_ids": [[text[1]], text[3:5], text[6:9]]}
        several = {"eos_token_id": [39, text[4], text[2]]}
        first = {"begin_suppress_tokens": [i for i in range(40) if i not in (6, 38)]}
        cases: list[dict[str, Any]] = [
            *({word: ids} for word, ids in at.items()),
            *({"min_length": 12}, {"min_new_tokens": 9}, {"eos_token_id": None}, several, first),
            *({"no_repeat_ngram_size": 2, "min_length": 12}, {"repetition_penalty": 1.7}),
            {"encoder_no_repeat_ngram_size": 1, "min_length": 12},
            {"forced_bos_token_id": 3} | first,
            at | several | {"min_length": 9, "repetition_penalty": 1.3},
        ]
        for number, words in enumerate(cases):
            changed = copy.deepcopy(module)
            for word, value in words.items():
                setattr(changed.generation_config, word, value)
            theirs = [written(changed, source) for source in sources]
            assert theirs != ended, f"{name} {words} changes nothing"
            models = {"memory": tv.load(changed, device="cpu")}
            if number >= len(cases) - 2:  # the words of a folder are read by the same function
                models = opened(changed, None, tmp_path / f"{name}{number}")
            for place, model in models.items():
                ours = [list(tv.translate(model, one, max_tokens=12)[0].ids) for one in sources]
                assert ours == theirs, f"{name} {words} from {place}"


def test_any_of_several_end_tokens_ends_a_text(tmp_path):
    ends, prompts = [2, 5, 9], ([0, 11, 12], [0, 15], [0, 20, 21, 22], [0, 16, 10])
    torch.manual_seed(3)
    config = transformers.LlamaConfig(vocab_size=24, hidden_size=32, intermediate_size=64,
        num_hidden_layers=1, num_attention_heads=4, bos_token_id=0, eos_token_id=ends,
        initializer_range=0.8)  # fmt: skip
    module = transformers.LlamaForCausalLM(config).eval()
    theirs = [written(module, prompt) for prompt in prompts]
    assert any(ids[-1] in ends[1:] for ids in theirs)  # one that the first does not end
    for place, model in opened(module, None, tmp_path).items():
        assert model.eos_id == 2 and model.end_ids == (2, 5, 9), place
        assert model.tokenizer.tokens([2, 3, 5, 9]).special == (True, False, True, True), place
        for prompt, own in zip(prompts, theirs, strict=True):
            best = tv.translate(model, prompt, max_tokens=12)[0]
            assert list(best.ids) == own, (place, prompt)
            assert best.finished == (own[-1] in ends), (place, prompt)
            beams = tv.translate(model, prompt, beam=3, max_tokens=12)
            drawn = tv.translate(model, prompt, sample=1.5, max_tokens=12, seed=1)
            for one in (*beams, *drawn):
                assert not set(one.ids[:-1]) & set(ends), (place, prompt)
                assert one.finished == (one.ids[-1] in ends), (place, prompt)
    said = tv.load(tmp_path, device="cpu", eos_id=9)
    assert said.end_ids == (9,) and said.provenance["eos_id"] == "override"
    assert tv.load(module, eos_id=[9, 5]).end_ids == (9, 5)
    with pytest.raises(CheckpointError, match="eos_id is a whole number"):
        tv.load(module, eos_id=[9, -5])


def test_what_the_user_says_of_ids_wins(tmp_path):
    module = translator("Bart", 40, decoder_start_token_id=2)
    module.generation_config.forced_bos_token_id = 0
    module.save_pretrained(tmp_path)
    model = tv.load(tmp_path, device="cpu", decoder_start_token_id=7, forced_bos_token_id=5)
    assert (model.bos_id, model.config["forced_bos_token_id"]) == (7, 5)
    assert tv.translate(model, [0, 11, 2], max_tokens=2)[0].ids[0] == 5
