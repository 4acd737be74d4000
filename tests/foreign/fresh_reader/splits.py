"""A third round: heads that are made apart and meet only before the output projection."""

from __future__ import annotations

import math

import torch
from torch import nn

from tests.foreign.fresh_reader import Known, Stranger, law, merge, mixed, scaled, split


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
            outs.append(mixed(maps[-1], v, "" if number and kind == "head" else kind)[:, 0])
        return Known(self.proj(torch.cat(outs, -1)), (torch.cat(maps, 1),))


class UnequalHeadModules(HeadModules):
    """The same with heads of widths 2, 4 and 8, as pruning leaves them."""

    widths = (2, 4, 8)


class TwoScales(Stranger):
    """Shunted attention: two heads read all six tokens, two read the three means of pairs."""

    note = "self; four heads, of which two have three keys"

    def build(self):
        self.q, self.o = nn.Linear(16, 16), nn.Linear(16, 16)
        self.kv = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def both(self, x):
        pairs = x.unflatten(1, (-1, 2)).mean(2)
        return [kv(t).chunk(2, -1) for kv, t in zip(self.kv, (x, pairs), strict=True)]

    def forward(self, x):
        outs = []
        for q, (k, v) in zip(self.q(x).chunk(2, -1), self.both(x), strict=True):
            q, k, v = (split(t, 2) for t in (q, k, v))
            outs.append(merge((q @ k.mT / 2).softmax(-1) @ v))
        return self.o(torch.cat(outs, -1))

    def known(self, inputs, kind):
        (x,) = inputs
        outs, maps = [], []
        for number, (k, v) in enumerate(self.both(x)):
            q, k, v = (split(t, 2) for t in (self.q(x).chunk(2, -1)[number], k, v))
            maps.append(law(scaled(q, k), kind))
            outs.append(merge(mixed(maps[-1], v, "" if number and kind == "head" else kind)))
        return Known(self.o(torch.cat(outs, -1)), tuple(maps))


class LocalAndGlobal(Stranger):
    """Two heads of width 4 see everything, one of width 8 its neighbours; one projection."""

    note = "self; heads 0 and 1 global, head 2 local"

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
        for heads, qkv, mask in self.parts(*inputs):
            q, k, v = (split(t, heads) for t in qkv)
            maps.append(law(scaled(q, k) + mask, kind))
            outs.append(merge(mixed(maps[-1], v, "" if heads == 1 and kind == "head" else kind)))
        return Known(self.o(torch.cat(outs, -1)), (torch.cat(maps, 1),))


class HeadsSummed(Stranger):
    """No concatenation: each of two heads has its own output projection, and they are added."""

    def build(self):
        self.heads = nn.ModuleList(_Head(8) for _ in range(2))
        self.outs = nn.ModuleList(nn.Linear(8, 16, bias=False) for _ in range(2))

    def forward(self, x):
        return sum(out(head(x)) for head, out in zip(self.heads, self.outs, strict=True))

    def known(self, inputs, kind):
        total, maps = 0, []
        for number, (head, out) in enumerate(zip(self.heads, self.outs, strict=True)):
            q, k, v = (f(*inputs)[:, None] for f in (head.query, head.key, head.value))
            maps.append(law(scaled(q, k), kind))
            total = total + out(mixed(maps[-1], v, "" if number and kind == "head" else kind)[:, 0])
        return Known(total, (torch.cat(maps, 1),))


MODULES = (HeadModules, UnequalHeadModules, TwoScales, LocalAndGlobal, HeadsSummed)
