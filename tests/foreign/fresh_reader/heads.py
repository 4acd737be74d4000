"""Heads that are made apart, mixed, or meet only before the output projection."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import Known, Projected, Stranger
from .parts import heads_left, law, look, merge, mixed, scaled, split


def off(number: int, kind: str) -> str:
    """The edit of one part of several: only the first holds the head that an edit names."""
    return "" if number and kind == "head" else kind


class HeadsAndChunks(Projected):
    """A loop over heads, and in it one over chunks of two queries."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        heads = []
        for head in range(4):
            parts = []
            for chunk in q[:, head].split(2, dim=1):
                scores = chunk @ k[:, head].transpose(1, 2) / 2
                parts.append(scores.softmax(-1) @ v[:, head])
            heads.append(torch.cat(parts, dim=1))
        return self.o(torch.cat(heads, dim=-1))


class UnequalHeads(Stranger):
    """Three heads of widths 4, 8 and 12, each a small module."""

    widths = (4, 8, 12)

    def build(self):
        self.heads = nn.ModuleList(nn.Linear(16, 3 * width) for width in self.widths)
        self.o = nn.Linear(24, 16)

    def forward(self, x):
        return self.o(torch.cat([look(*head(x).chunk(3, dim=-1)) for head in self.heads], -1))

    def known(self, inputs, kind):
        outs, maps = [], []
        for number, head in enumerate(self.heads):
            q, k, v = (t[:, None] for t in head(*inputs).chunk(3, -1))
            maps.append(law(scaled(q, k), kind))
            outs.append(mixed(maps[-1], v, off(number, kind))[:, 0])
        return Known(self.o(torch.cat(outs, -1)), (torch.cat(maps, 1),))


class EqualHeads(UnequalHeads):
    """A loop over three heads of equal width, in one module."""

    widths = (8, 8, 8)


class _Head(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(16, width, bias=False) for _ in range(3))

    def forward(self, x):
        k, q, v = self.key(x), self.query(x), self.value(x)
        return (q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5).softmax(dim=-1) @ v


class HeadModules(Stranger):
    """The tutorial of nanoGPT: a list of small head modules, of equal width."""

    widths = (4, 4, 4)

    def build(self):
        self.heads = nn.ModuleList(_Head(width) for width in self.widths)
        self.proj = nn.Linear(sum(self.widths), 16)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))

    def known(self, inputs, kind):
        outs, maps = [], []
        for number, head in enumerate(self.heads):
            q, k, v = (f(*inputs)[:, None] for f in (head.query, head.key, head.value))
            maps.append(law(scaled(q, k), kind))
            outs.append(mixed(maps[-1], v, off(number, kind))[:, 0])
        return Known(self.project(outs), (torch.cat(maps, 1),))

    def project(self, outs):
        return self.proj(torch.cat(outs, -1))


class UnequalHeadModules(HeadModules):
    """The same with heads of widths 2, 4 and 8, as pruning leaves them."""

    widths = (2, 4, 8)


class HeadsSummed(HeadModules):
    """No concatenation: each of two heads has its own output projection, and they are added."""

    def build(self):
        self.heads = nn.ModuleList(_Head(8) for _ in range(2))
        self.outs = nn.ModuleList(nn.Linear(8, 16, bias=False) for _ in range(2))

    def forward(self, x):
        return sum(out(head(x)) for head, out in zip(self.heads, self.outs, strict=True))

    def project(self, outs):
        return sum(out(one) for one, out in zip(outs, self.outs, strict=True))


class TwoScales(Stranger):
    """Shunted attention: two heads read all six tokens, two read the three means of pairs."""

    def build(self):
        self.q, self.o = nn.Linear(16, 16), nn.Linear(16, 16)
        self.kv = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def both(self, x):
        pairs = x.unflatten(1, (-1, 2)).mean(2)
        return [kv(t).chunk(2, -1) for kv, t in zip(self.kv, (x, pairs), strict=True)]

    def forward(self, x):
        both = zip(self.q(x).chunk(2, -1), self.both(x), strict=True)
        outs = [merge(look(*(split(t, 2) for t in (q, k, v)))) for q, (k, v) in both]
        return self.o(torch.cat(outs, -1))

    def known(self, inputs, kind):
        (x,) = inputs
        outs, maps = [], []
        for number, (k, v) in enumerate(self.both(x)):
            q, k, v = (split(t, 2) for t in (self.q(x).chunk(2, -1)[number], k, v))
            maps.append(law(scaled(q, k), kind))
            outs.append(merge(mixed(maps[-1], v, off(number, kind))))
        return Known(self.o(torch.cat(outs, -1)), tuple(maps))


class LocalAndGlobal(Stranger):
    """Two heads of width 4 see everything, one of width 8 its neighbours; one projection."""

    def build(self):
        self.far, self.near, self.o = nn.Linear(16, 24), nn.Linear(16, 24), nn.Linear(16, 16)

    def parts(self, x):
        place = torch.arange(x.shape[1])
        distant = (place[:, None] - place).abs() > 1
        mask = torch.zeros(x.shape[1], x.shape[1]).masked_fill(distant, -torch.inf)
        yield 2, self.far(x).chunk(3, -1), torch.zeros_like(mask)
        yield 1, self.near(x).chunk(3, -1), mask

    def forward(self, x):
        outs = []
        for heads, qkv, mask in self.parts(x):
            q, k, v = (split(t, heads) for t in qkv)
            outs.append(merge((q @ k.mT / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v))
        return self.o(torch.cat(outs, -1))

    def known(self, inputs, kind):
        outs, maps = [], []
        for number, (heads, qkv, mask) in enumerate(self.parts(*inputs)):
            q, k, v = (split(t, heads) for t in qkv)
            maps.append(law(scaled(q, k) + mask, kind))
            outs.append(merge(mixed(maps[-1], v, off(number, kind))))
        return Known(self.o(torch.cat(outs, -1)), (torch.cat(maps, 1),))


class HeadGroups(Projected):
    """Heads are worked through two at a time, as tensor parallelism does, and summed."""

    def forward(self, x):
        total = self.o.bias
        for rank in range(2):
            rows = slice(8 * rank, 8 * rank + 8)
            q, k, v = (
                split(F.linear(x, f.weight[rows], f.bias[rows]), 2)
                for f in (self.q, self.k, self.v)
            )
            total = total + F.linear(merge(look(q, k, v)), self.o.weight[:, rows])
        return total


class Interleaved(Projected):
    """Heads innermost: feature ``4 i + h`` belongs to head ``h``, before and after."""

    def forward(self, x):
        parts = (f(x).view(*x.shape[:2], 4, 4) for f in (self.q, self.k, self.v))
        heads = look(*(t.permute(0, 3, 1, 2) for t in parts))
        return self.o(heads.permute(0, 2, 3, 1).flatten(2))

    def known(self, inputs, kind):
        q, k, v = (f(*inputs).unflatten(-1, (4, 4)) for f in (self.q, self.k, self.v))
        weights = law(torch.einsum("bnih,bmih->bhnm", q, k) / 2, kind)
        out = torch.einsum("bhnm,bmih->bnih", heads_left(weights, kind), v)
        return Known(self.o(out.flatten(2)), (weights,))


class RelativeValues(Projected):
    """Shaw: the weights also meet an embedding of the distance, and both sums are added."""

    def build(self):
        super().build()
        self.far = nn.Embedding(11, 4)

    def attend(self, q, k, v):
        place = torch.arange(q.shape[2])
        r = self.far(place[:, None] - place + 5)
        weights = torch.softmax(q @ k.mT / 2, -1)
        return weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, r)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        place = torch.arange(6)
        r = self.far.weight[place[:, None] - place + 5]
        weights = law(scaled(q, k), kind)
        left = heads_left(weights, kind)
        out = (left[..., None] * (v[:, :, None] + r)).sum(-2)
        return Known(self.o(merge(out)), (weights,))


class Gated(Projected):
    """ConViT: a gate for each head mixes attention by content with attention by place."""

    def build(self):
        super().build()
        self.gate, self.places = nn.Parameter(torch.randn(4)), nn.Linear(2, 4)

    def two(self, n):
        far = (torch.arange(n)[:, None] - torch.arange(n)).float()
        return self.places(torch.stack([far, far.square() / 4], -1)).permute(2, 0, 1)[None]

    def attend(self, q, k, v):
        content = (q @ k.mT / 2).softmax(dim=-1)
        place = self.two(q.shape[2]).expand(q.shape[0], -1, -1, -1).softmax(dim=-1)
        gate = torch.sigmoid(self.gate).view(1, -1, 1, 1)
        return ((1.0 - gate) * content + gate * place) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        gate = torch.sigmoid(self.gate)[:, None, None]
        content, place = law(scaled(q, k), kind), law(self.two(6), kind)
        return self.finish(content + gate * (place - content), v, kind)


class Consensus(Projected):
    """Collaborative heads: the mean of all four maps is used by every head."""

    def attend(self, q, k, v):
        return torch.softmax(q @ k.mT / 2, -1).mean(1, keepdim=True) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        maps = law(scaled(q, k), kind)
        weights = heads_left(maps, kind).mean(1, keepdim=True)
        return Known(self.o(merge(mixed(weights, v, ""))), (maps,))


class HeadNorm(Projected):
    """RetNet, Differential Transformer: each head is normalised before the output projection."""

    def build(self):
        super().build()
        self.norm = nn.LayerNorm(4)
        nn.init.normal_(self.norm.bias)

    def attend(self, q, k, v):
        return self.norm(look(q, k, v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        weights = law(scaled(q, k), kind)
        heads = self.norm(mixed(weights, v, "" if kind == "head" else kind))
        heads = heads * heads_left(torch.ones(1, 4, 1, 1), kind)
        return Known(self.o(merge(heads)), (weights,))


class AcrossHeads(Projected):
    """One softmax over keys and heads together: heads compete for each query."""

    def attend(self, q, k, v):
        scores = (q @ k.mT / 2).transpose(1, 2)
        return scores.flatten(2).softmax(-1).view_as(scores).transpose(1, 2) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = scaled(q, k)
        if kind == "temperature":
            scores = scores / 2
        if kind == "hidden":
            scores[..., 1] = -torch.inf
        weights = scores.exp() / scores.exp().sum((1, 3), keepdim=True)
        return self.finish(weights, v, kind)
