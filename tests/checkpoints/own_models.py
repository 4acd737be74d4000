"""Models as people write them around PyTorch's layers, and what they attend to themselves.

The witness is the module's own forward pass: each nn.MultiheadAttention is asked for its weights by
hooks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

D, H, F, VS, VT, P = 12, 3, 20, 17, 19, 24


def sinusoid(rows: int = P, width: int = D) -> Tensor:
    """Return the paper's table ``[position, d_model]``."""
    at = torch.arange(rows)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([at.sin(), at.cos()], -1).flatten(1)[:, :width]


class Table(nn.Module):
    """A sinusoid as a buffer of some name and shape, stored or not."""

    def __init__(self, name: str, shape: tuple[int, ...], stored: bool):
        super().__init__()
        self.name = name
        self.register_buffer(name, sinusoid().reshape(shape), persistent=stored)

    def forward(self, x: Tensor) -> Tensor:
        return x + getattr(self, self.name).reshape(-1, D)[: x.shape[1]]


class Learned(nn.Module):
    """Learned positions in an nn.Embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(P, D)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.embed(torch.arange(x.shape[1]))


@dataclass
class Plan:
    """One way to write a translator; ``names`` are the fields of the module."""

    names: dict[str, str]
    positions: Callable[[], nn.Module] | None = None
    scale: float = 1.0
    batch_first: bool = True
    norm_first: bool = False
    activation: str = "relu"
    bias: bool = True
    shared: bool = False
    apart: bool = False
    two_tables: bool = False
    words: dict[str, Any] = field(default_factory=dict)


class Own(nn.Module):
    """A translator of one's own around nn.Transformer, or its two stacks apart."""

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan, n = plan, plan.names
        kwargs: dict[str, Any] = {
            "dropout": 0.0,
            "activation": plan.activation,
            "batch_first": plan.batch_first,
            "norm_first": plan.norm_first,
        }
        setattr(self, n["source"], nn.Embedding(VS, D))
        if plan.shared:
            setattr(self, n["target"], getattr(self, n["source"]))
        else:
            setattr(self, n["target"], nn.Embedding(VT, D))
        if plan.positions is not None:
            setattr(self, n["positions"], plan.positions())
            if plan.two_tables:
                setattr(self, n["target positions"], plan.positions())
        if plan.apart:
            encoder = nn.TransformerEncoderLayer(D, H, F, **kwargs)
            decoder = nn.TransformerDecoderLayer(D, H, F, **kwargs)
            setattr(self, n["encoder"], nn.TransformerEncoder(encoder, 2, enable_nested_tensor=False))
            setattr(self, n["decoder"], nn.TransformerDecoder(decoder, 2))
        else:
            setattr(self, n["core"], nn.Transformer(D, H, 2, 2, F, **kwargs))
        rows = VS if plan.shared else VT
        setattr(self, n["output"], nn.Linear(D, rows, bias=plan.bias))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0, 0.3)
        self.eval()

    def embed(self, ids: Tensor, side: str) -> Tensor:
        n = self.plan.names
        x = getattr(self, n[side])(ids) * self.plan.scale
        place = "target positions" if side == "target" and self.plan.two_tables else "positions"
        return x if self.plan.positions is None else getattr(self, n[place])(x)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        n = self.plan.names
        x, y = self.embed(source, "source"), self.embed(target, "target")
        if not self.plan.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        if self.plan.apart:
            states = getattr(self, n["decoder"])(y, getattr(self, n["encoder"])(x), tgt_mask=mask)
        else:
            states = getattr(self, n["core"])(x, y, tgt_mask=mask)
        if not self.plan.batch_first:
            states = states.transpose(0, 1)
        return getattr(self, n["output"])(states)


@contextmanager
def attended(module: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Have every nn.MultiheadAttention give its weights ``[batch, head, query, key]``."""
    seen: list[tuple[str, Tensor]] = []

    def ask(layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, kwargs | {"need_weights": True, "average_attn_weights": False}

    hooks = []
    for name, part in module.named_modules():
        if isinstance(part, nn.MultiheadAttention):
            hooks.append(part.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(
                part.register_forward_hook(
                    lambda layer, args, out, name=name: seen.append((name, out[1].detach()))
                )
            )
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def names(source: str, target: str, core: str, output: str, *more: str) -> dict[str, str]:
    """Return the fields of `Own`; ``more`` are positions, target positions, encoder, decoder."""
    found = {"source": source, "target": target, "core": core, "output": output}
    return found | dict(zip(("positions", "target positions", "encoder", "decoder"), more))


ROOT = math.sqrt(D)
PLANS = {
    "the journey: no position buffer, scaled": Plan(
        names("encoder_emb", "decoder_emb", "core", "fc_out", "pos"),
        lambda: Table("pe", (1, P, D), stored=False),
        scale=ROOT,
        words={"embedding_scale": ROOT, "positions": "sinusoidal"},
    ),
    "a stored table [1, position, d], not scaled": Plan(
        names("src_embedding", "trg_embedding", "transformer", "out", "positional_encoding"),
        lambda: Table("pe", (1, P, D), stored=True),
        words={"embedding_scale": 1.0},
    ),
    "a stored table [position, 1, d], sequence first, pre-norm, gelu": Plan(
        names("enc_embed", "dec_embed", "model", "linear", "pos_encoder"),
        lambda: Table("pe", (P, 1, D), stored=True),
        batch_first=False,
        norm_first=True,
        activation="gelu",
        words={"embedding_scale": 1.0, "norm": "pre", "activation": "gelu"},
    ),
    "learned positions on each side, no bias": Plan(
        names(
            *("src_word_embedding", "trg_word_embedding", "transformer", "fc_out"),
            *("src_position_embedding", "trg_position_embedding"),
        ),
        Learned,
        two_tables=True,
        bias=False,
        words={"embedding_scale": 1.0},
    ),
    "one embedding, learned positions, stacks apart": Plan(
        names("tok", "tok_out", "", "head", "pos_table", "", "enc", "dec"),
        Learned,
        shared=True,
        apart=True,
        scale=ROOT,
        words={"embedding_scale": ROOT},
    ),
    "no positions, a table [position, d] nowhere": Plan(
        names("embed_in", "embed_out", "seq2seq", "to_vocab"),
        words={"embedding_scale": 1.0, "positions": "none"},
    ),
}


class Block(nn.Module):
    """A layer of one's own around nn.MultiheadAttention, with its norms before."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_a, self.ln_b = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attention = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, F), nn.GELU(), nn.Linear(F, D))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.ln_a(x)
        x = x + self.attention(y, y, y, attn_mask=mask)[0]
        return x + self.mlp(self.ln_b(x))


class Blocks(nn.Module):
    """An encoder of one's own: causal words, a class of the mean or the first, a tag a token."""

    def __init__(self, rows: int, causal: bool, how: str, torch_layers: bool = False):
        super().__init__()
        self.causal, self.how = causal, how
        self.wte = nn.Embedding(VS, D)
        self.wpe = nn.Embedding(P, D)
        if torch_layers:
            layer = nn.TransformerEncoderLayer(D, H, F, 0.0, batch_first=True)
            self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        else:
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.ln_f = nn.LayerNorm(D)
        self.head = nn.Linear(D, rows)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0, 0.3)
        self.eval()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        length = ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1) if self.causal else None
        if isinstance(self.blocks, nn.ModuleList):
            for block in self.blocks:
                x = block(x, mask)
            x = self.ln_f(x)
        else:
            x = self.blocks(x, mask)
        if self.how == "mean":
            x = x.mean(1)
        elif self.how == "first":
            x = x[:, 0]
        return self.head(x)
