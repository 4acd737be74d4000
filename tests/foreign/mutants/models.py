"""Small models that together write attention in every way: what the faults of the probe run on.

Weights are random under a seed. No size occurs twice in one model where it can be helped, so that
no two axes can be exchanged unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from . import attentions as kinds
from .attentions import WIDTH, Attend, Fused

VOCABULARY = 31
IDS = (5, 9, 2, 7, 3, 11, 0)  # the last one is padding


class Layer(nn.Module):
    """Attention and feed-forward, each with a norm before it and a residual sum after it."""

    def __init__(self, attention: nn.Module, width: int = WIDTH) -> None:
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 37), nn.GELU(), nn.Linear(37, width))

    def forward(self, x: Tensor, *rest: Any) -> Tensor:
        x = x + self.attention(self.norms[0](x), *rest)
        return x + self.feed(self.norms[1](x))


class Words(nn.Module):
    """Embeddings with learned positions, layers, and a last norm."""

    def __init__(self, *attentions: nn.Module, masked: str = "", width: int = WIDTH) -> None:
        super().__init__()
        self.masked = masked
        self.words = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.randn(19, width) / 2)
        self.layers = nn.ModuleList(Layer(one, width) for one in attentions)
        self.norm = nn.LayerNorm(width)

    def mask(self, ids: Tensor) -> Tensor | None:
        if self.masked == "padding":
            return (ids == 0)[:, None, None]
        if self.masked == "causal":
            later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
            return later | (ids == 0)[:, None, None]
        return None

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places[: ids.shape[1]]
        mask = self.mask(ids)
        for layer in self.layers:
            x = layer(x) if mask is None else layer(x, None, mask)
        return self.norm(x)


class Cached(nn.Module):
    """A causal decoder that reads a sentence in two passes: four tokens, then the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Attend() for _ in range(2))
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        first, store = self.part(self.words(ids[:, :4]), [None, None])
        second, _ = self.part(self.words(ids[:, 4:]), store)
        return self.out(torch.cat((first, second), 1))

    def part(self, x: Tensor, store: list[Any]) -> tuple[Tensor, list[Any]]:
        kept = []
        for layer, past in zip(self.layers, store, strict=True):
            q, k, v = (layer.split(w(x)) for w in (layer.wq, layer.wk, layer.wv))
            if past is not None:
                k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            kept.append((k, v))
            later = torch.ones(q.shape[2], k.shape[2]).triu(1 + k.shape[2] - q.shape[2]).bool()
            x = x + layer.mix(q, k, v, later)
        return x, kept


class Both(nn.Module):
    """An encoder and a decoder with cross-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.readers = nn.ModuleList(Layer(Attend()) for _ in range(2))
        self.writers = nn.ModuleList(Layer(Attend()) for _ in range(2))
        self.lookers = nn.ModuleList(Layer(Attend()) for _ in range(2))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = self.words(source), self.words(target)
        for layer in self.readers:
            x = layer(x, None, (source == 0)[:, None, None])
        later = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        for layer, looker in zip(self.writers, self.lookers, strict=True):
            y = looker(layer(y, None, later), x)
        return y


class Towers(nn.Module):
    """Two encoders of unlike inputs, whose sites share their names."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Words(Attend(), Fused("scale")), Words(Attend(), Attend())

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return self.left(one).mean(1) - self.right(other).mean(1)


def rotary() -> nn.Module:
    """Rotations alone, and norms by hand."""
    model = Words(kinds.Rotary(), kinds.Rotary())
    nn.init.zeros_(model.places)
    for layer in model.layers:
        layer.norms = nn.ModuleList(kinds.RootMeanSquare() for _ in range(2))
    return model


#: How to build each model, by name.
MODELS: dict[str, Callable[[], nn.Module]] = {
    "eager": lambda: Words(Attend(), Attend(), masked="padding"),
    "causal": lambda: Words(Attend(), kinds.Late(), masked="causal"),
    "bias": lambda: Words(kinds.Biased("one tensor"), kinds.Biased("one call")),
    "rotary": rotary,
    "cross": Both,
    "library": lambda: Words(kinds.LibraryAttention(), kinds.LibraryAttention()),
    "fused": lambda: Words(
        Fused("causal"), kinds.Biased("fused"), Fused("scale"), masked="padding"
    ),
    "few keys": lambda: Words(
        *(kinds.FewKeys(how) for how in ("fused", "repeat", "letters", "expand"))
    ),
    "letters": lambda: Words(
        *(kinds.Letters(how) for how in ("last", "merged", "first", "turned"))
    ),
    "windows": lambda: Words(kinds.Windows(), kinds.Windows()),
    "sink": lambda: Words(kinds.Sink(), kinds.Sink(), masked="causal"),
    "by hand": lambda: Words(
        kinds.ByHand("exp"), kinds.ByHand("sum"), kinds.ByHand("added"), kinds.Scaled()
    ),
    "heads": lambda: Words(kinds.HeadList(), kinds.HeadList()),
    "parts": lambda: Words(kinds.Parts(), kinds.Parts()),
    "cache": Cached,
    "towers": Towers,
}


def built(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model by name, and inputs with a batch of one; the same numbers every time."""
    torch.manual_seed(17)
    module = MODELS[name]().eval()
    ids, others = torch.tensor([IDS]), torch.tensor([[8, 1, 6, 12, 0]])
    if name == "windows":
        return module, (torch.tensor([[*IDS, 4]]),)
    return module, {"cross": (others, ids), "towers": (ids, others)}.get(name, (ids,))
