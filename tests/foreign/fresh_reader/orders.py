"""A fifth round: padding, halves, clusters, and other orders of the same work."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tests.foreign.fresh_reader import Known, heads_left, law, merge, mixed, scaled, split
from tests.foreign.fresh_reader.flows import UnequalHeads
from tests.foreign.fresh_reader.softmaxes import Projected


class EqualHeads(UnequalHeads):
    """A loop over three heads of equal width, in one module."""

    def build(self):
        self.heads = nn.ModuleList(nn.Linear(16, 24) for _ in range(3))
        self.o = nn.Linear(24, 16)


class MicroBatches(Projected):
    """The batch is worked through one item at a time, to save memory."""

    def one(self, x):
        q, k, v = self.qkv(x)
        return self.o(merge(torch.softmax(q @ k.mT / 2, -1) @ v))

    def forward(self, x):
        return torch.cat([self.one(part) for part in x.split(1)])

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class LeftPadded(Projected):
    """Tokens are padded in front to a multiple of four; the padding is masked and cut off."""

    def forward(self, x):
        n = x.shape[1]
        pad = -n % 4
        q, k, v = self.qkv(F.pad(x, (0, 0, pad, 0)))
        hidden = torch.arange(n + pad) < pad
        scores = (q @ k.mT / 2).masked_fill(hidden, float("-inf"))
        return self.o(merge(scores.softmax(-1) @ v))[:, pad:]

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class BothDirections(Projected):
    """One set of weights reads left to right and right to left; the two are added."""

    note = "self, two maps: rightwards, leftwards"

    def one(self, x):
        q, k, v = self.qkv(x)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 2).masked_fill(future, float("-inf"))
        return self.o(merge(scores.softmax(-1) @ v))

    def forward(self, x):
        return self.one(x) + self.one(x.flip(1)).flip(1)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        future = torch.full((6, 6), -torch.inf).triu(1)
        maps = tuple(law(scaled(q, k) + mask, kind) for mask in (future, future.mT))
        total = sum(self.o(merge(mixed(weights, v, kind))) for weights in maps)
        return Known(total, maps)


class AcrossHeads(Projected):
    """One softmax over keys and heads together: heads compete for each query."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = (q @ k.mT / 2).transpose(1, 2)
        weights = scores.flatten(2).softmax(-1).view_as(scores).transpose(1, 2)
        return self.o(merge(weights @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = scaled(q, k)
        if kind == "temperature":
            scores = scores / 2
        if kind == "hidden":
            scores[..., 1] = -torch.inf
        weights = scores.exp() / scores.exp().sum((1, 3), keepdim=True)
        return self.finish(weights, v, kind)


class Clustered(Projected):
    """Clustered attention: tokens 0, 2, 4 share their mean query, and so do 1, 3, 5."""

    note = "self; the softmax has two rows, each for three tokens"

    def forward(self, x):
        q, k, v = self.qkv(x)
        groups = torch.arange(x.shape[1]) % 2
        means = torch.stack([q[:, :, groups == g].mean(2) for g in (0, 1)], 2)
        out = torch.softmax(means @ k.mT / 2, -1) @ v
        return self.o(merge(out[:, :, groups]))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        same = (torch.arange(6) % 2)[:, None] == torch.arange(6) % 2
        q = torch.einsum("nm,bhmd->bhnd", same / 3, q)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Dilated(Projected):
    """Even and odd tokens attend among themselves, as two items of the batch."""

    note = "self; the batch of the map is parity and sentence"

    def forward(self, x):
        parts = torch.cat([x[:, ::2], x[:, 1::2]])
        q, k, v = self.qkv(parts)
        even, odd = merge(torch.softmax(q @ k.mT / 2, -1) @ v).chunk(2)
        return self.o(torch.stack([even, odd], 2).flatten(1, 2))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        same = (torch.arange(6) % 2)[:, None] == torch.arange(6) % 2
        scores = scaled(q, k).masked_fill(~same, -torch.inf)
        return self.finish(law(scores, kind), v, kind)


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
            part = merge(torch.softmax(q @ k.mT / 2, -1) @ v)
            total = total + F.linear(part, self.o.weight[:, rows])
        return total

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Consensus(Projected):
    """Collaborative heads: the mean of all four maps is used by every head."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1).mean(1, keepdim=True)
        return self.o(merge(weights @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        maps = law(scaled(q, k), kind)
        weights = heads_left(maps, kind).mean(1, keepdim=True)
        return Known(self.o(merge(mixed(weights, v, ""))), (maps,))


MODULES = (
    EqualHeads,
    MicroBatches,
    LeftPadded,
    BothDirections,
    AcrossHeads,
    Clustered,
    Dilated,
    HeadGroups,
    Consensus,
)
