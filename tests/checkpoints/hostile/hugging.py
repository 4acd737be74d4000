"""Hugging Face folders that want code run, or whose words, weights and files do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from .case import Call, Case, shell

BIAS = "bert.encoder.layer.0.attention.self.query.bias"
Maker = Callable[[Path, Path], Path]


@cache
def sound() -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config and the weights of a tiny BERT."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    more = {"vocab_size": 99, "intermediate_size": 20, "max_position_embeddings": 17}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = BertForMaskedLM(BertConfig(**sizes, **more))
    words = module.config.to_dict() | {"architectures": ["BertForMaskedLM"]}
    tied = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
    state = {name: t.clone() for name, t in module.state_dict().items() if name not in tied}
    return words, state


def hugging(
    files: dict[str, str] | None = None, weights: dict[str, Any] | None = None, **words: Any
) -> Maker:
    """A maker of the tiny BERT's folder with words, weights (None: left out) and files changed."""

    def make(folder: Path, canary: Path) -> Path:
        config, state = sound()
        (folder / "config.json").write_text(json.dumps(config | words))
        changed = {n: t for n, t in (state | (weights or {})).items() if t is not None}
        safetensors.torch.save_file(changed, folder / "model.safetensors", {"format": "pt"})
        touch = f"open({str(canary)!r}, 'w')\nclass M: pass\nclass C: pass\nclass T: pass\n"
        (folder / "code.py").write_text(touch)
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        return folder

    return make


def pickled(folder: Path, canary: Path) -> Path:
    """Weights in the library's older file, with a command in it."""
    hugging()(folder, canary)
    (folder / "model.safetensors").unlink()
    torch.save({BIAS: shell(canary), "x": Call(print, "x")}, folder / "pytorch_model.bin")
    return folder


CODE = {"AutoConfig": "code.C", "AutoModel": "code.M", "AutoModelForMaskedLM": "code.M"}
PIECES = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(200))])
FOREIGN = '{"tokenizer_class": "BertTokenizer"}'
OWN_CODE = r"brings Python code of its own \(auto_map in config\.json\), which is never run"
HUGGING = [
    Case("code of its own", hugging(auto_map=CODE), OWN_CODE),
    Case("code for an unknown type", hugging(auto_map=CODE, model_type="new"), OWN_CODE),
    Case("a command in its weights", pickled, r"holds Python objects \([\w., ]*posix\.system"),
    Case("an unknown type", hugging(model_type="new"), "does not know the model_type 'new'"),
    Case("a list for a type", hugging(model_type=["bert"]), "is not known"),
    Case("a function for a class", hugging(architectures=["os.system"]), "no architecture 'os.sys"),
    Case("a factory for a class", hugging(architectures=["AutoModel"]), "no architecture"),
    Case("a class of others", hugging(architectures=["GPT2LMHeadModel"]), "does not go with"),
    Case("code for an activation", hugging(hidden_act="__import__('os')"), "cannot be built"),
    Case("an unknown kind of number", hugging(dtype="evil"), "does not describe a bert model"),
    Case("bits and bytes", hugging(quantization_config={"quant_method": "x"}), "are quantised"),
    Case("heads of text", hugging(num_attention_heads="3"), "expected int, got str"),
    Case("five heads", hugging(num_attention_heads=5), "not a multiple of the number of att"),
    Case("zero heads", hugging(num_attention_heads=0), "cannot be built from config.json"),
    Case("layers below zero", hugging(num_hidden_layers=-1), "num_hidden_layers=-1"),
    Case("a layer too few", hugging(num_hidden_layers=1), "layer.1.attention"),
    Case("a layer too many", hugging(num_hidden_layers=3), "lacks the weight .*layer.2"),
    Case("a vocabulary too small", hugging(vocab_size=98), r"makes it \[98, 12\]"),
    Case("many layers", hugging(num_hidden_layers=10**9), "but the file holds only", heavy=True),
    Case("a great width", hugging(hidden_size=3 * 10**8), r"makes it \[300000000", heavy=True),
    Case("a great vocabulary", hugging(vocab_size=10**12), "2,097,152 are the most", heavy=True),
    Case("another one", hugging(src_vocab_size=10**11), "src_vocab_size=100,0.*most", heavy=True),
    Case("layers of layers", hugging(attention_types=[[["a"], 10**10]]), "holds only", heavy=True),
    Case("classes for an empty weight",
         hugging(num_labels=10**9, weights={"x": torch.zeros(10**9, 0)}),
         "num_labels=1,000,000,000", heavy=True),
    Case("dense layers", hugging(first_k_dense_replace=10**10), "file holds only", heavy=True),
    Case("many positions", hugging(max_position_embeddings=10**12), "are the most", heavy=True),
    Case("a bias missing", hugging(weights={BIAS: None}), f"lacks the weight {BIAS}"),
    Case("a stranger's weight", hugging(weights={"foo": torch.zeros(3)}), "has a weight foo that"),
    Case("a longer bias", hugging(weights={BIAS: torch.zeros(13)}), rf"{BIAS} is \[13\] in"),
    Case("a bias of NaN", hugging(weights={BIAS: torch.full((12,), torch.nan)}), "12 values that"),
    Case("a bias of bytes", hugging(weights={BIAS: torch.zeros(12).to(torch.int8)}), "holds int8"),
    Case("pieces of another model",
         hugging({"vocab.txt": PIECES, "tokenizer_config.json": FOREIGN}),
         "tokenizer has 205 pieces, but the model beside it knows 99"),
    Case("words for writing", hugging({"generation_config.json": "garbage"}), "is not JSON"),
]  # fmt: skip
