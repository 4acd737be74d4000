"""Texts and pairs reach a model with the token types that transformers itself would give it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers.processors import BertProcessing, RobertaProcessing, TemplateProcessing

import transformer_viz as tv
from transformer_viz.opening.tokenizer_job import _facts, _used
from transformer_viz.preprocessing.elsewhere import RemoteTokenizer
from transformer_viz.preprocessing.fast_tokenizer import FastTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "wrote", "it", "the", "old", "book", "ann",
         "said", "bob"]  # fmt: skip
ROLES = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep")}
ROLES["eos_token"] = "[SEP]"
TEXTS = ("who wrote it",), ("who wrote it", "ann said bob wrote the old book")
MARKS = [("[CLS]", 2), ("[SEP]", 3)]
BERT_LIKE = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
ROBERTA_LIKE = RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))
XLNET_LIKE = TemplateProcessing(
    single="$A:0 [SEP]:0 [CLS]:2",
    pair="$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2",
    special_tokens=MARKS,
)
ENDED = TemplateProcessing(single="$A [SEP]", pair="$A [SEP] $B:1 [SEP]:1", special_tokens=MARKS)
UNTYPED = TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=MARKS
)
PLAIN: dict[str, Any] = {"vocab_size": 20, "num_labels": 2, "pad_token_id": 0}
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 24, "max_position_embeddings": 40}  # fmt: skip
BART = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
        "eos_token_id": 3, "decoder_start_token_id": 3}  # fmt: skip
T5 = {"d_model": 16, "d_kv": 8, "num_layers": 1, "num_heads": 2, "d_ff": 24, "eos_token_id": 3,
      "decoder_start_token_id": 0}  # fmt: skip
GPT2 = {"n_embd": 16, "n_layer": 1, "n_head": 2}
XLM = {"emb_dim": 16, "n_layers": 1, "n_heads": 2, "pad_index": 0}
XLNET = {"d_model": 16, "n_layer": 1, "n_head": 2, "d_inner": 24}
#: Class, its sizes, what the tokenizer puts around texts, whether it declares types.
CASES: tuple[tuple[str, dict[str, Any], Any, bool], ...] = (
    ("RobertaForSequenceClassification", BERT | {"type_vocab_size": 1}, ROBERTA_LIKE, False),
    ("XLMRobertaForQuestionAnswering", BERT | {"type_vocab_size": 2}, ROBERTA_LIKE, False),
    ("DebertaV2ForSequenceClassification", BERT | {"type_vocab_size": 2}, BERT_LIKE, False),
    ("DebertaV2ForSequenceClassification", BERT | {"type_vocab_size": 0}, BERT_LIKE, True),
    ("BertForSequenceClassification", BERT, BERT_LIKE, True),
    ("BertForSequenceClassification", BERT, BERT_LIKE, False),
    ("DistilBertForSequenceClassification", {"dim": 16, "n_layers": 1, "n_heads": 2}, BERT_LIKE,
     True),
    ("XLNetForSequenceClassification", XLNET, XLNET_LIKE, True),
    ("XLNetForSequenceClassification", XLNET, XLNET_LIKE, False),
    ("XLMForSequenceClassification", XLM, UNTYPED, True),
    ("BartForSequenceClassification", BART, ROBERTA_LIKE, False),
    ("BartForQuestionAnswering", BART, BERT_LIKE, True),
    ("T5ForSequenceClassification", T5, ENDED, False),
    ("GPT2ForSequenceClassification", GPT2, ENDED, False),
    ("GPT2ForSequenceClassification", GPT2, ENDED, True),
    ("GPT2ForQuestionAnswering", GPT2, None, False),
)  # fmt: skip


def made(cls: str, words: dict[str, Any]) -> Any:
    """Return a random model whose token types weigh more than its words."""
    torch.manual_seed(0)
    kind = getattr(transformers, cls)
    module = kind(kind.config_class(**PLAIN, **words)).eval()
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw)
            typed = "token_type" in name or "seg_embed" in name
            parameter.copy_(noise / parameter.shape[-1] ** 0.5 * (6 if typed else 1))
    return module


def core(post: Any) -> Any:
    pieces = tokenizers.models.WordLevel({word: n for n, word in enumerate(WORDS)}, "[UNK]")
    found = tokenizers.Tokenizer(pieces)
    found.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if post is not None:
        found.post_processor = post
    return found


def library(post: Any, declares: bool) -> Any:
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if declares else [])]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core(post), model_input_names=names, **ROLES
    )


def judged(module: Any, given: Any) -> np.ndarray:
    """Return what the library's model gives for what its tokenizer made."""
    names = inspect.signature(module.forward).parameters
    with torch.inference_mode():
        out = module(**{name: value for name, value in given.items() if name in names})
    if hasattr(out, "start_logits"):
        return torch.stack((out.start_logits[0], out.end_logits[0])).numpy()
    return out.logits[0].numpy()


def test_a_model_gets_what_the_librarys_own_tokenizer_makes():
    for cls, words, post, declares in CASES:
        module, tokenizer = made(cls, words), library(post, declares)
        model = tv.load(module, tokenizer=tokenizer)
        for texts in TEXTS:
            trace = tv.trace(model, texts if len(texts) > 1 else texts[0], check=False)
            theirs = judged(module, tokenizer(*texts, return_tensors="pt"))
            assert np.abs(trace.logits - theirs).max() < 1e-5, (cls, declares, texts)
        mute = module.config.get_text_config().to_dict().get("type_vocab_size", 1) > 1
        assert any("token types" in note for note in model.notes) == (mute and not declares), cls


def test_a_folder_is_read_as_the_librarys_tokenizer_of_it(tmp_path):
    """Without a config of its tokenizer too: then the kind of the model says what is made."""
    for number, (cls, words, post, declares) in enumerate((*CASES[:2], *CASES[4:6], *CASES[7:8])):
        for bare in (False, True) if cls.startswith("Bert") else (False,):
            folder = tmp_path / f"{number}{bare}"
            module, tokenizer = made(cls, words), library(post, declares)
            module.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            if bare:
                (folder / "tokenizer_config.json").unlink()
            theirs = transformers.AutoTokenizer.from_pretrained(folder)
            trace = tv.trace(tv.load(folder), TEXTS[1], check=False)
            expected = judged(module, theirs(*TEXTS[1], return_tensors="pt"))
            assert np.abs(trace.logits - expected).max() < 1e-5, (cls, declares, bare)


def test_a_bare_tokenizer_gives_types_to_models_that_have_a_table_of_them(tmp_path):
    """It numbers texts always; GPT-2 would look such numbers up among its words."""
    for number, post in ((4, BERT_LIKE), (7, XLNET_LIKE), (13, ENDED), (6, BERT_LIKE)):
        cls, words, _, _ = CASES[number]
        module, pieces = made(cls, words), core(post)
        encoding = pieces.encode(*TEXTS[1])
        given = {"input_ids": torch.tensor([encoding.ids])}
        if number in (4, 7):
            given["token_type_ids"] = torch.tensor([encoding.type_ids])
        expected = judged(module, given)
        pieces.save(str(tmp_path / "words.json"))
        for one in (pieces, tmp_path / "words.json"):
            trace = tv.trace(tv.load(module, tokenizer=one), TEXTS[1], check=False)
            assert np.abs(trace.logits - expected).max() < 1e-5, (cls, one)


def test_a_tokenizer_elsewhere_makes_the_same_types():
    for near in (library(XLNET_LIKE, True), library(BERT_LIKE, False), FastTokenizer(core(ENDED))):

        def ask(do: str, tokenizer: Any = near, **request: Any) -> dict[str, Any]:
            return _used(tokenizer, {"do": do, **request})

        far = RemoteTokenizer(ask, _facts(near))
        for cls, words, _, _ in (CASES[4], CASES[7], CASES[13]):
            module = made(cls, words)
            for texts in TEXTS:
                both = [
                    tv.load(module, tokenizer=one).tokenizer.typed_ids(*texts)
                    for one in (near, far)
                ]
                assert both[0] == both[1], (cls, texts)


def test_ids_and_padding_are_read_as_the_library_reads_them():
    """Ids come without types; padding on the left moves no position where nothing is written."""
    padded = tv.Intervention.from_json('{"edits": [{"kind": "pad", "count": 3, "masked": true}]}')
    for number in (0, 4, 8, 10, 12, 13):
        cls, words, post, declares = CASES[number]
        module, tokenizer = made(cls, words), library(post, declares)
        model, made_ids = tv.load(module, tokenizer=tokenizer), tokenizer(*TEXTS[1])["input_ids"]
        for left in (0, 3):
            ids = torch.tensor([[0] * left + made_ids])
            expected = judged(module, {"input_ids": ids, "attention_mask": (ids != 0).long()})
            trace = tv.trace(model, ids[0].tolist(), check=False)
            assert np.abs(trace.logits - expected).max() < 1e-5, (cls, left)
        given = tokenizer(
            *TEXTS[1], return_tensors="pt", padding="max_length", max_length=len(made_ids) + 3,
            padding_side="right",
        )  # fmt: skip
        trace = tv.trace(model, TEXTS[1], intervention=padded, check=False)
        assert np.abs(trace.logits - judged(module, given)).max() < 1e-5, cls


def test_a_type_beyond_the_table_is_named():
    model = tv.load(made(*CASES[4][:2]), tokenizer=library(XLNET_LIKE, True))
    with pytest.raises(ValueError, match="token type 2 and this model knows 0 to 1"):
        tv.trace(model, TEXTS[1])


def test_heads_are_ranked_over_pairs_that_an_encoder_decoder_judges():
    module, tokenizer = made(*CASES[10][:2]), library(ROBERTA_LIKE, False)
    pairs = [(TEXTS[1], 0), (("who said it", "bob wrote"), 1)]

    def loss() -> float:
        found = [
            torch.tensor(judged(module, tokenizer(*texts, return_tensors="pt"))).log_softmax(0)[n]
            for texts, n in pairs
        ]
        return -float(sum(found)) / len(found)

    decoder = module.model.decoder.layers[0]
    mixing = {
        ("encoder", "self"): module.model.encoder.layers[0].self_attn.out_proj,
        ("decoder", "self"): decoder.self_attn.out_proj,
        ("decoder", "cross"): decoder.encoder_attn.out_proj,
    }
    clean = loss()
    for row in tv.rank(
        tv.load(module, tokenizer=tokenizer), pairs, method="zero"
    ).table.itertuples():

        def silence(_: Any, given: Any, part: int = 8 * row.head) -> Any:
            kept = given[0].clone()
            kept[..., part : part + 8] = 0
            return (kept,)

        with mixing[row.stack, row.block].register_forward_pre_hook(silence):
            assert abs(row.effect - (loss() - clean)) < 1e-5, row
