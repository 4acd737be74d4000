"""Learned queries: decoders of DETR, Perceivers, poolings."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import HEADS, LAWS, WIDTH, Attention, Block, style

CROSS = Attention(kind="cross")


class Ask(Block):
    """Five learned queries look at the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = nn.Parameter(torch.randn(5, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        asked = self.asked.expand(len(x), -1, -1)
        return asked + self.wo(self.ask(asked, x))

    def ask(self, asked: Tensor, x: Tensor) -> Tensor:
        q, k, v = self.qkv(asked, x)
        return self.join(self.weigh(q, k) @ v)


@style(CROSS, row="S7")
class LearnedQueries(Ask):
    """learned queries, eager"""


@style(Attention("(bh)qk", kind="cross"), row="S7")
class LearnedQueriesBmm(Ask):
    """learned queries, bmm over (batch head)"""

    def ask(self, asked: Tensor, x: Tensor) -> Tensor:
        q, k, v = (y.flatten(0, 1) for y in self.qkv(asked, x))
        w = torch.bmm(q, k.mT).div(8**0.5).softmax(-1)
        return self.join(torch.bmm(w, v).unflatten(0, (-1, HEADS)))


@style(CROSS)
class LearnedQueriesSdpa(Ask):
    """learned queries over SDPA"""

    def ask(self, asked: Tensor, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(asked, x)))


@style(CROSS, row="S7")
class LearnedQueriesOneRow(Ask):
    """one set of queries, never expanded: [1, head, query, width]"""

    def ask(self, asked: Tensor, x: Tensor) -> Tensor:
        q, k, v = self.qkv(asked[:1], x)
        return self.join(self.weigh(q, k) @ v)


@style(Attention("bqk", kind="cross", heads=1), project=None, head=0, row="S7")
class LearnedQueriesOneHead(Ask):
    """learned queries, one head, three dimensions"""

    def ask(self, asked: Tensor, x: Tensor) -> Tensor:
        return self.weigh(self.wq(asked), self.wk(x)) @ self.wv(x)


@style(
    Attention("(bh)qk", kind="cross"), row="S7", grad=True, project="=pool.out_proj", laws=LAWS[:3]
)
class PoolingHead(nn.Module):
    """nn.MultiheadAttention with a learned probe (SigLIP)"""

    def __init__(self) -> None:
        super().__init__()
        self.probe = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pool = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        with torch.no_grad():
            self.pool.in_proj_weight *= 2

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.probe.repeat(len(x), 1, 1), x, x)[0][:, 0]


@style(
    Attention(layer=0),
    Attention(kind="cross", layer=0),
    Attention(layer=1),
    Attention(kind="cross", layer=1),
    project=tuple(f"layers.{i}.{n}.wo" for i in range(2) for n in ("own", "other")),
    row="S7",
)
class Detr(nn.Module):
    """two decoder layers on queries that begin as zeros plus learned places"""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(5, WIDTH))
        self.layers = nn.ModuleList(
            nn.ModuleDict({"own": Block(), "other": Block()}) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        places = self.places.expand(len(x), -1, -1)
        target = torch.zeros_like(places)
        for layer in self.layers:
            own, other = layer["own"], layer["other"]
            q, k, _ = own.qkv(target + places)
            v = own.split(own.wv(target))
            target = target + own.wo(own.join(own.weigh(q, k) @ v))
            q, k, v = other.qkv(target + places, x)
            target = target + other.wo(other.join(other.weigh(q, k) @ v))
        return target


class Latents(nn.Module):
    """Latents that look at the input, then at each other."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(5, WIDTH))
        self.cross = nn.ModuleList(Block() for _ in range(rounds))
        self.own = nn.ModuleList(Block() for _ in range(rounds))

    def forward(self, x: Tensor) -> Tensor:
        z = self.latents.expand(len(x), -1, -1)
        for cross, own in zip(self.cross, self.own, strict=True):
            q, k, v = cross.qkv(z, x)  # type: ignore[operator]
            z = z + cross.wo(cross.join(cross.weigh(q, k) @ v))  # type: ignore[operator]
            z = own(z)
        return z


@style(CROSS, Attention(), project=("cross.0.wo", "own.0.wo"), row="S7")
def perceiver() -> nn.Module:
    """a Perceiver of one round"""
    return Latents(1)


@style(
    *(CROSS, Attention(), Attention(kind="cross", layer=1), Attention(layer=1)),
    project=("cross.0.wo", "own.0.wo", "cross.1.wo", "own.1.wo"),
    row="S12",
)
def perceiver_twice() -> nn.Module:
    """two rounds: the second cross-attention is cross too"""
    return Latents(2)


@style(CROSS, Attention(kind="cross", layer=None), project=("one.wo", "two.wo"), row="S7")
class InducedSets(nn.Module):
    """induced set attention: learned points ask the set, the set asks the points"""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.one, self.two = Block(), Block()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.one.qkv(self.points.repeat(len(x), 1, 1), x)
        points = self.points + self.one.wo(self.one.join(self.one.weigh(q, k) @ v))
        q, k, v = self.two.qkv(x, points)
        return x + self.two.wo(self.two.join(self.two.weigh(q, k) @ v))


@style(Attention(site=False), row="S7")
class LearnedEverything(Block):
    """a table of learned tokens attends to itself, the input is only added"""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(2, 9, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(self.tokens)


@style(CROSS, laws=("temperature", "head_off"), row="S7")
class SlotAttention(Block):
    """slots compete for tokens: a softmax over the slots, then a mean over tokens"""

    def __init__(self) -> None:
        super().__init__()
        self.slots = nn.Parameter(torch.randn(3, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.slots.expand(len(x), -1, -1), x)
        w = self.scores(q, k).softmax(2) + 1e-8
        return self.wo(self.join(self.tap("multiplied", w / w.sum(-1, keepdim=True)) @ v))
