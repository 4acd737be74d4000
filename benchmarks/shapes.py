"""Models of GPT-2-small's shape with random weights: 12 layers, 12 heads, width 768.

All without a large output layer, so that attention weighs as much as it can; capture is timed and
its memory is measured on the same bodies.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transformer_viz.model import ModelConfig, Transformer

LAYERS, HEADS, WIDTH, VOCABULARY, LONGEST = 12, 12, 768, 1000, 2048
Forward = Callable[[Tensor], object]


def reference() -> tuple[nn.Module, Forward]:
    """Our own Transformer, decoder only: attention written out (eager)."""
    torch.manual_seed(0)
    config = ModelConfig(
        d_model=WIDTH,
        heads=HEADS,
        d_ff=4 * WIDTH,
        decoder_layers=LAYERS,
        target_vocab=VOCABULARY,
        max_positions=LONGEST,
        activation="gelu_tanh",
        positions="learned",
        pad_id=-1,
    )
    module = Transformer(config).eval()
    return module, module


def gpt2_eager() -> tuple[nn.Module, Forward]:
    """Hugging Face's GPT-2 with its attention written out."""
    return _gpt2("eager")


def gpt2_fused() -> tuple[nn.Module, Forward]:
    """Hugging Face's GPT-2 with PyTorch's fused attention."""
    return _gpt2("sdpa")


def gpt2_long() -> tuple[nn.Module, Forward]:
    """The same, fused, with positions for the longest texts that are measured."""
    return _gpt2("sdpa", 32768)


def _gpt2(attention: str, longest: int = LONGEST) -> tuple[nn.Module, Forward]:
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=LAYERS,
        n_head=HEADS,
        n_embd=WIDTH,
        vocab_size=VOCABULARY,
        bos_token_id=None,
        eos_token_id=None,
        n_positions=longest,
        attn_implementation=attention,
        use_cache=False,
    )
    module = GPT2Model(config).eval()
    return module, lambda ids: module(ids).last_hidden_state


SHAPES: dict[str, Callable[[], tuple[nn.Module, Forward]]] = {
    "reference": reference,
    "gpt2_eager": gpt2_eager,
    "gpt2_fused": gpt2_fused,
    "gpt2_long": gpt2_long,
}


def sentence(length: int) -> Tensor:
    """Token ids ``[1, token]``, the same at every call."""
    generator = torch.Generator().manual_seed(length)
    return torch.randint(4, VOCABULARY, (1, length), generator=generator)
