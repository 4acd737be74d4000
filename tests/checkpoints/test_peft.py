"""Adapters and wrapped modules as the peft library makes them, against what peft computes."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError

from .hugging_face import CASES, IDS, folder_of

SOURCE = IDS[:1, :5]
LORA: dict[str, Any] = {"r": 3, "lora_alpha": 5, "init_lora_weights": False}
KINDS = {
    "LoRA": peft.LoraConfig(target_modules=["q_proj", "v_proj", "down_proj"], **LORA),
    "rsLoRA": peft.LoraConfig(target_modules=["q_proj"], use_rslora=True, **LORA),
    "patterns": peft.LoraConfig(
        target_modules="all-linear",
        rank_pattern={"q_proj": 2},
        alpha_pattern={"layers.1.*v_proj": 3},
        **LORA,
    ),
    "words": peft.LoraConfig(target_modules=["embed_tokens", "lm_head", "k_proj"], **LORA),
    "DoRA": peft.LoraConfig(target_modules=["q_proj"], use_dora=True, **LORA),
    "PiSSA": peft.LoraConfig(target_modules=["q_proj"], r=3, init_lora_weights="pissa"),
    "LoHa": peft.LoHaConfig(target_modules=["q_proj"], r=2, alpha=3, init_weights=False),
    "IA3": peft.IA3Config(
        target_modules=["k_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        init_ia3_weights=False,
    ),
}


@pytest.fixture(autouse=True)
def no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peft writes a README beside each adapter, which takes longer than its weights."""
    monkeypatch.setattr(peft.PeftModel, "create_or_update_model_card", lambda *_: None)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return folder_of(CASES["llama"], "safetensors", tmp_path / "llama")


def wrapped(base: Path, config: peft.PeftConfig) -> Any:
    """A model that peft wrapped, with an adapter of strong random weights."""
    module = transformers.AutoModelForCausalLM.from_pretrained(base)
    torch.manual_seed(3)
    with warnings.catch_warnings():  # what peft calls of the library will be renamed there
        warnings.simplefilter("ignore")
        return peft.get_peft_model(module, copy.deepcopy(config)).eval()


def kept(module: Any, folder: Path) -> Path:
    """The adapter's folder; peft remarks on whole tables and on factors with a bias."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_folders_and_modules_compute_what_peft_computes(base, tmp_path):
    plain = tv.load(base, device="cpu").calls
    for kind, config in KINDS.items():
        module = wrapped(base, config)
        kept(module, tmp_path / kind)
        with torch.inference_mode():
            expected = module(SOURCE, attention_mask=torch.ones_like(SOURCE)).logits
            inside = tv.load(module, device="cpu")
            merged = tv.load(tmp_path / kind, device="cpu", base=base)
            assert torch.equal(inside.calls.forward(SOURCE), expected), kind
            assert torch.allclose(merged.calls.forward(SOURCE), expected, atol=1e-5), kind
            if kind != "PiSSA":  # it begins where the model stands
                assert not torch.allclose(plain.forward(SOURCE), expected, atol=1e-3), kind
        assert inside.kind == merged.kind == "decoder-only", kind
        for model in (inside, merged) if kind == "LoRA" else (inside,):
            assert tv.trace(model, SOURCE[0].tolist()).report.status == "green", kind
        if kind == "LoRA":  # a wrapped module is probed as it is
            with torch.inference_mode(), tv.probe(module) as run:
                output = module(SOURCE, output_attentions=False).logits
            with torch.inference_mode():
                assert torch.equal(output, module(SOURCE).logits)
            assert [record.layer for record in run.attentions] == [0, 1, 2]
            assert run.attentions[0].path.startswith("base_model.model.")


def test_what_cannot_be_merged_is_refused(base, tmp_path):
    """Tokens before the text, and what peft itself refuses to merge."""
    prefix = peft.PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")
    biased = peft.LoraConfig(target_modules=["q_proj"], lora_bias=True, **LORA)
    module, own = wrapped(base, prefix), "puts tokens of its own before each text"
    kept(module, tmp_path / "prefix")
    kept(wrapped(base, biased), tmp_path / "tuned")
    for thing, words, said in (
        (module, {}, own),
        (tmp_path / "prefix", {"base": base}, own),
        (tmp_path / "tuned", {"base": base}, r"peft cannot merge the adapter tuned .*lora_bias"),
    ):
        with pytest.raises(CheckpointError, match=said):
            tv.load(thing, device="cpu", **words)


#: Bases whose token tables grew before the adapter was trained: rows, peft's words, how it saves.
GROWN: dict[str, tuple[str, int, dict[str, Any], dict[str, Any]]] = {
    "whole tables": ("llama", 92, {"modules_to_save": ["embed_tokens", "lm_head"]}, {}),
    "rounded": ("llama", 128, {"modules_to_save": ["embed_tokens", "lm_head"]}, {}),
    "plain tables": ("llama", 92, {}, {"save_embedding_layers": True}),
    "LoRA on tables": ("llama", 92, {"extra": ["embed_tokens", "lm_head"]}, {}),
    "single rows": ("llama", 92, {"trainable_token_indices": [90, 91]}, {}),
    "tied": ("tied llama", 92, {"modules_to_save": ["embed_tokens"]}, {}),
    "an encoder": ("bert", 92, {"modules_to_save": ["word_embeddings"]}, {}),
    "a shared table": ("t5", 92, {"modules_to_save": ["shared", "lm_head"]}, {}),
    "a tied plain table": ("bart", 92, {}, {"save_embedding_layers": True}),
    "fewer, whole tables": ("llama", 80, {"modules_to_save": ["embed_tokens", "lm_head"]}, {}),
    "fewer, plain tables": ("llama", 80, {}, {"save_embedding_layers": True}),
    "fewer, LoRA on tables": ("llama", 80, {"extra": ["embed_tokens", "lm_head"]}, {}),
    "fewer, single rows": ("llama", 80, {"trainable_token_indices": [7]}, {}),
    "fewer, tied": ("tied llama", 80, {"modules_to_save": ["embed_tokens"]}, {}),
    "fewer, an encoder": ("bert", 80, {"modules_to_save": ["word_embeddings"]}, {}),
    "fewer, a shared table": ("t5", 80, {"modules_to_save": ["shared", "lm_head"]}, {}),
    "rows without tables": ("llama", 92, {"trainable_token_indices": [3, 90, 91]},
                            {"save_embedding_layers": False}),
    "old rows without tables": ("llama", 90, {"trainable_token_indices": [3, 11]},
                                {"save_embedding_layers": False}),
}  # fmt: skip


def _grown_base(which: str) -> tuple[Any, list[str]]:
    small: dict[str, Any] = {"vocab_size": 90, "hidden_size": 16, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 32}
    torch.manual_seed(0)
    if which == "bert":
        words = transformers.BertConfig(**small)
        return transformers.BertForSequenceClassification(words), ["query", "value"]
    if which == "t5":
        config = transformers.T5Config(
            vocab_size=90, d_model=16, d_kv=8, num_layers=1, num_heads=2, d_ff=32
        )
        return transformers.T5ForConditionalGeneration(config), ["q", "v"]
    sides = {f"{s}_{w}": n for s in ("encoder", "decoder") for w, n in
             {"layers": 1, "attention_heads": 2, "ffn_dim": 32}.items()}  # fmt: skip
    if which == "bart":
        bart = transformers.BartConfig(
            vocab_size=90, d_model=16, max_position_embeddings=32, **sides
        )
        return transformers.BartForConditionalGeneration(bart), ["q_proj", "v_proj"]
    llama = transformers.LlamaConfig(**small, tie_word_embeddings=which == "tied llama")
    return transformers.LlamaForCausalLM(llama), ["q_proj", "v_proj"]


@pytest.mark.slow
def test_bases_whose_tables_grew_compute_what_peft_computes(tmp_path):
    made = {which: _grown_base(which) for which, *_ in GROWN.values()}
    for which, (module, _) in made.items():
        module.save_pretrained(tmp_path / which)
    for case, (which, *words) in GROWN.items():
        _check_grown(case, *made[which], *words, tmp_path / which, tmp_path / case)


def _check_grown(
    case: str,
    module: Any,
    parts: list[str],
    rows: int,
    words: dict[str, Any],
    saving: dict[str, Any],
    whole: Path,
    tuned_at: Path,
) -> None:
    def base() -> Any:
        made = copy.deepcopy(module).eval()
        made.name_or_path = made.config.name_or_path = str(whole)  # peft looks there
        torch.manual_seed(5)
        made.resize_token_embeddings(rows)
        return made

    words = dict(words)
    config = peft.LoraConfig(r=2, target_modules=[*parts, *words.pop("extra", [])], **words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuned = peft.get_peft_model(base(), config)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if any(m in name for m in ("lora_", "modules_to_save", "trainable_tokens_delta")):
                weight.normal_(std=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuned.save_pretrained(tuned_at, **saving)
        expected = peft.PeftModel.from_pretrained(base(), tuned_at).eval()
    ids = torch.tensor([[3, 11, 25, 91 if rows > 90 else 7, 37]])
    decodes = module.config.is_encoder_decoder
    given = {"decoder_input_ids": ids[:, 1:4]} if decodes else {}
    model = tv.load(tuned_at, device="cpu", base=whole)
    with torch.inference_mode():
        logits = expected(ids, attention_mask=torch.ones_like(ids), **given).logits
        ours = model.calls.forward(ids, ids[:, 1:4]) if decodes else model.calls.forward(ids)
    known = 90 if "without" in case else rows  # a resizing draws the output layer's other rows
    assert torch.allclose(ours[..., :known], logits[..., :known], atol=1e-5), case
    change = f"trained with {abs(rows - 90)} tokens {'more' if rows > 90 else 'fewer'}"
    assert any(change in note for note in model.notes) == (rows != 90), case
    lost = any("lm_head that are in no file are 0 here" in note for note in model.notes)
    assert lost == (case == "rows without tables"), case
    assert not lost or not ours[..., 90:].any()
