"""Models of transformers; the oracle is ``output_attentions`` of the eager way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..verdict import Configuration

BERT: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
BERT |= {"intermediate_size": 32, "vocab_size": 50}
LLAMA: dict[str, Any] = {**BERT, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50}
#: The family's name, and its configuration.
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("bert", BERT),
    ("roberta", BERT),
    ("electra", BERT),
    ("ernie", BERT),
    ("esm", {**BERT, "pad_token_id": 1, "mask_token_id": 2}),
    ("gpt2", GPT),
    ("gptj", {**GPT, "rotary_dim": 4}),
    ("gpt_neox", BERT),
    ("llama", LLAMA),
    ("mistral", LLAMA),
    ("qwen2", LLAMA),
    ("qwen3", LLAMA),
    ("gemma", LLAMA),
    ("olmo2", LLAMA),
    ("phi3", LLAMA),
)


def model(family: str, given: dict[str, Any]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small eager model and two lines of nine tokens."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(family, **given, attn_implementation="eager")
    config.use_cache = False
    return AutoModel.from_config(config), (torch.randint(3, 50, (2, 9)),)


def own(module: nn.Module, ids: Tensor) -> list[Tensor]:
    """The package's own maps."""
    return list(module(ids, output_attentions=True).attentions)


def configurations() -> list[Configuration]:
    """All of them."""
    return [
        Configuration(name, lambda n=name, g=given: model(n, g), 2, own)  # type: ignore[misc]
        for name, given in MODELS
    ]
