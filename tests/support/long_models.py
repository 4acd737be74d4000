"""Small Hugging Face models of several layouts, with random weights and room for long texts."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from torch import nn

VOCABULARY = 61
MARKS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def gpt2() -> nn.Module:
    """Learned positions, as many key heads as query heads, fused attention."""
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=28, n_layer=2, n_head=2, n_positions=2048, vocab_size=VOCABULARY,
            initializer_range=0.3, attn_implementation="sdpa", **MARKS,
        )
    )  # fmt: skip


def mistral() -> nn.Module:
    """Rotary positions, three query heads to a key head, a window of 700 tokens."""
    return transformers.MistralForCausalLM(
        transformers.MistralConfig(
            hidden_size=72, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
            intermediate_size=53, vocab_size=VOCABULARY, max_position_embeddings=4096,
            sliding_window=700, initializer_range=0.2, attn_implementation="sdpa", **MARKS,
        )
    )  # fmt: skip


def bloom() -> nn.Module:
    """ALiBi: a bias that falls with the distance, head by head."""
    return transformers.BloomForCausalLM(
        transformers.BloomConfig(
            hidden_size=28, n_layer=1, n_head=2, vocab_size=VOCABULARY, initializer_range=0.3,
            **MARKS,
        )
    )  # fmt: skip


def t5() -> nn.Module:
    """Relative positions as a learned bias, and cross-attention from a short target."""
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            d_model=28, d_kv=14, num_layers=1, num_decoder_layers=1, num_heads=2, d_ff=31,
            vocab_size=VOCABULARY, decoder_start_token_id=0, eos_token_id=2, pad_token_id=0,
            initializer_factor=2.0,
        )
    )  # fmt: skip


def gemma2() -> nn.Module:
    """Scores that a tanh keeps below 5, rotary positions."""
    return transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(
            hidden_size=28, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            head_dim=14, intermediate_size=31, vocab_size=VOCABULARY, attn_logit_softcapping=5.0,
            initializer_range=0.3, max_position_embeddings=4096, attn_implementation="eager",
            **MARKS,
        )
    )  # fmt: skip


def gpt_oss() -> nn.Module:
    """A sink in each row that takes a share of it."""
    return transformers.GptOssForCausalLM(
        transformers.GptOssConfig(
            hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
            head_dim=16, intermediate_size=32, vocab_size=VOCABULARY, num_local_experts=2,
            num_experts_per_tok=1, layer_types=["full_attention"], initializer_range=0.2,
            max_position_embeddings=4096, rope_scaling=None, attn_implementation="eager", **MARKS,
        )
    )  # fmt: skip


LAYOUTS: dict[str, Callable[[], nn.Module]] = {
    one.__name__: one for one in (gpt2, mistral, bloom, t5, gemma2, gpt_oss)
}


def made(name: str) -> nn.Module:
    """A model of a layout, the same each time."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return LAYOUTS[name]().eval()


def ids(count: int) -> list[int]:
    """So many tokens, none of them a mark."""
    draw = torch.Generator().manual_seed(3)
    return torch.randint(3, VOCABULARY, (count,), generator=draw).tolist()
