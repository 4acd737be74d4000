"""Attentions whose rows or keys are not the tokens in order: turned, sorted, cut, padded."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from . import Known, Projected, Stranger
from .parts import law, look, merge, mixed, scaled


def same_parity() -> torch.Tensor:
    return (torch.arange(6) % 2)[:, None] == torch.arange(6) % 2


class Reversed(Projected):
    """A right-to-left decoder: turns its input round, attends causally, turns it back."""

    def forward(self, x):
        q, k, v = self.qkv(x.flip(1))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 2).masked_fill(future, float("-inf"))
        return self.o(merge(scores.softmax(-1) @ v)).flip(1)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        past = torch.full((6, 6), -torch.inf).tril(-1)
        return self.finish(law(scaled(q, k) + past, kind).nan_to_num(0.0), v, kind)


class Sorted(Projected):
    """Reformer in small: tokens are sorted by a hash, attend in blocks of three, and go back."""

    def build(self):
        super().build()
        self.register_buffer("hash", torch.randn(16))

    def forward(self, x):
        order = (x @ self.hash).argsort(dim=1)
        back = order.argsort(dim=1)
        x = x.gather(1, order[..., None].expand_as(x))
        out = merge(look(*self.qkv(x.view(-1, 3, 16)))).view_as(x)
        return self.o(out.gather(1, back[..., None].expand_as(out)))

    def known(self, inputs, kind):
        (x,) = inputs
        block = (x @ self.hash).argsort(1).argsort(1) // 3
        same = (block[:, :, None] == block[:, None, :])[:, None]
        q, k, v = self.qkv(x)
        return self.finish(law(scaled(q, k).masked_fill(~same, -torch.inf), kind), v, kind)


class Neighbours(Projected):
    """Neighbourhood attention by ``unfold``: a query sees itself and both neighbours."""

    def attend(self, q, k, v):
        near_k, near_v = (F.pad(t, (0, 0, 1, 1)).unfold(2, 3, 1) for t in (k, v))
        scores = torch.einsum("bhnd,bhndw->bhnw", q, near_k) / 2
        inside = F.pad(torch.ones(q.shape[2]), (1, 1)).unfold(0, 3, 1).bool()
        weights = scores.masked_fill(~inside, float("-inf")).softmax(-1)
        return torch.einsum("bhnw,bhndw->bhnd", weights, near_v)

    def true(self, q, k):
        place = torch.arange(6)
        return scaled(q, k).masked_fill((place[:, None] - place).abs() > 1, -torch.inf)


class PointCloud(Stranger):
    """Point Transformer: three nearest points, and a weight for each channel of the values."""

    def build(self):
        self.q, self.k, self.v, self.o = (nn.Linear(16, 4) for _ in range(4))
        self.o = nn.Linear(4, 16)

    def forward(self, x):
        near = torch.cdist(x[..., :3], x[..., :3]).topk(3, largest=False).indices
        take = torch.arange(x.shape[0])[:, None, None]
        k, v = self.k(x)[take, near], self.v(x)[take, near]
        weights = torch.softmax(self.q(x).unsqueeze(2) - k, dim=2)
        return self.o((weights * v).sum(2))

    def known(self, inputs, kind):
        (x,) = inputs
        far = (x[:, :, None, :3] - x[:, None, :, :3]).square().sum(-1)
        kept = far <= far.sort(-1).values[..., 2:3] + 1e-6
        scores = (self.q(x)[:, :, None] - self.k(x)[:, None]).permute(0, 3, 1, 2)
        weights = law(scores.masked_fill(~kept[:, None], -torch.inf), kind)
        out = mixed(weights, self.v(x).mT[..., None], kind)
        return Known(self.o(out[..., 0].mT), (weights,))


class Online(Projected):
    """Flash attention in Python: keys by twos, with a running maximum and a running sum."""

    def attend(self, q, k, v):
        most = torch.full((*q.shape[:3], 1), float("-inf"))
        total, out = torch.zeros_like(most), torch.zeros_like(v)
        for keys, values in zip(k.split(2, 2), v.split(2, 2), strict=True):
            scores = q @ keys.mT / 2
            new = torch.maximum(most, scores.amax(-1, keepdim=True))
            shrink, weights = (most - new).exp(), (scores - new).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out = out * shrink + weights @ values
            most = new
        return out / total


class TimeFirst(Projected):
    """Tokens first ``[token 4, batch 4, 16]``; weights ``[query, key, batch, head]``."""

    shape = (4, 4, 16)

    def first(self, inputs):
        return (inputs[0][:, :1],)

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], 4, 4) for f in (self.q, self.k, self.v))
        weights = torch.einsum("nbhd,mbhd->nmbh", q, k).div(2).softmax(dim=1)
        return self.o(torch.einsum("nmbh,mbhd->nbhd", weights, v).flatten(2))

    def known(self, inputs, kind):
        known = super().known((inputs[0].transpose(0, 1),), kind)
        return Known(known.output.transpose(0, 1), known.maps)


class BetweenRows(Projected):
    """Non-parametric Transformer: ``[datapoint 5, attribute 3, 16]``, and datapoints attend."""

    shape, batched = (5, 3, 16), False

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], 4, 4) for f in (self.q, self.k, self.v))
        weights = torch.einsum("iahd,jahd->ahij", q, k).div(2).softmax(-1)
        return self.o(torch.einsum("ahij,jahd->iahd", weights, v).flatten(2))

    def known(self, inputs, kind):
        known = super().known((inputs[0].transpose(0, 1),), kind)
        return Known(known.output.transpose(0, 1), known.maps)


class Pruned(Projected):
    """DynamicViT: after a first layer only the four strongest tokens go on, strongest first."""

    def build(self):
        super().build()
        self.second = Projected(1)

    def forward(self, x):
        x = x + self.o(merge(look(*self.qkv(x))))
        best = x.norm(dim=-1).topk(4, dim=1).indices
        x = x.gather(1, best[..., None].expand(-1, -1, 16))
        return x + self.second.o(merge(look(*self.second.qkv(x))))

    def known(self, inputs, kind):
        (x,) = inputs
        first = super().known(inputs, kind)
        x = x + first.output
        best = x.norm(dim=-1).argsort(1, descending=True)[:, :4]
        x = torch.stack([row[chosen] for row, chosen in zip(x, best, strict=True)])
        q, k, v = self.second.qkv(x)
        scores = scaled(q, k)
        if kind == "hidden":  # key 1 is token 1, wherever it went
            scores = scores.masked_fill((best == 1)[:, None, None], -torch.inf)
        second = self.second.finish(law(scores, "" if kind == "hidden" else kind), v, kind)
        return Known(x + second.output, first.maps + second.maps)


class ShiftedWindows(Projected):
    """Swin in one dimension: rolled by one, windows of three, rolled back; two windows wrap."""

    def forward(self, x):
        b, n, c = x.shape
        windows = torch.roll(x, -1, dims=1).view(b * n // 3, 3, c)
        out = merge(look(*self.qkv(windows))).view(b, n, c)
        return self.o(torch.roll(out, 1, dims=1))

    def true(self, q, k):
        block = torch.tensor([1, 0, 0, 0, 1, 1])
        return scaled(q, k).masked_fill(block[:, None] != block, -torch.inf)


class MicroBatches(Projected):
    """The batch is worked through one item at a time, to save memory."""

    def one(self, x):
        return self.o(merge(look(*self.qkv(x))))

    def forward(self, x):
        return torch.cat([self.one(part) for part in x.split(1)])


class LeftPadded(Projected):
    """Tokens are padded in front to a multiple of four; the padding is masked and cut off."""

    def forward(self, x):
        n = x.shape[1]
        pad = -n % 4
        q, k, v = self.qkv(F.pad(x, (0, 0, pad, 0)))
        hidden = torch.arange(n + pad) < pad
        scores = (q @ k.mT / 2).masked_fill(hidden, float("-inf"))
        return self.o(merge(scores.softmax(-1) @ v))[:, pad:]


class BothDirections(Projected):
    """One set of weights reads left to right and right to left; the two are added."""

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


class Clustered(Projected):
    """Clustered attention: tokens 0, 2, 4 share their mean query, and so do 1, 3, 5."""

    def attend(self, q, k, v):
        groups = torch.arange(q.shape[2]) % 2
        means = torch.stack([q[:, :, groups == g].mean(2) for g in (0, 1)], 2)
        return (torch.softmax(means @ k.mT / 2, -1) @ v)[:, :, groups]

    def true(self, q, k):
        return scaled(torch.einsum("nm,bhmd->bhnd", same_parity() / 3, q), k)


class Dilated(Projected):
    """Even and odd tokens attend among themselves, as two items of the batch."""

    def forward(self, x):
        parts = torch.cat([x[:, ::2], x[:, 1::2]])
        even, odd = merge(look(*self.qkv(parts))).chunk(2)
        return self.o(torch.stack([even, odd], 2).flatten(1, 2))

    def true(self, q, k):
        return scaled(q, k).masked_fill(~same_parity(), -torch.inf)
