"""A second round: attentions whose keys are not the tokens in order, or that are no attention."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.foreign.fresh_reader import Known, Stranger, heads_left, law, merge, mixed, scaled
from tests.foreign.fresh_reader.softmaxes import Projected


class Reversed(Projected):
    """A right-to-left decoder: turns its input round, attends causally, turns it back."""

    note = "self; query and key 0 are the first token of the input"

    def forward(self, x):
        q, k, v = self.qkv(x.flip(1))
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 2).masked_fill(future, float("-inf"))
        return self.o(merge(scores.softmax(-1) @ v)).flip(1)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        past = torch.full((6, 6), -torch.inf).tril(-1)
        weights = law(scaled(q, k) + past, kind).nan_to_num(0.0)
        return self.finish(weights, v, kind)


class Sorted(Projected):
    """Reformer in small: tokens are sorted by a hash, attend in blocks of three, and go back."""

    note = "self; two blocks of three tokens chosen by a hash"

    def build(self):
        super().build()
        self.register_buffer("hash", torch.randn(16))

    def forward(self, x):
        order = (x @ self.hash).argsort(dim=1)
        back = order.argsort(dim=1)
        x = x.gather(1, order[..., None].expand_as(x))
        blocks = x.view(-1, 3, 16)
        q, k, v = self.qkv(blocks)
        out = merge(torch.softmax(q @ k.mT / 2, -1) @ v).view_as(x)
        return self.o(out.gather(1, back[..., None].expand_as(out)))

    def known(self, inputs, kind):
        (x,) = inputs
        block = (x @ self.hash).argsort(1).argsort(1) // 3
        same = (block[:, :, None] == block[:, None, :])[:, None]
        q, k, v = self.qkv(x)
        return self.finish(law(scaled(q, k).masked_fill(~same, -torch.inf), kind), v, kind)


class Neighbours(Projected):
    """Neighbourhood attention by ``unfold``: a query sees itself and both neighbours."""

    note = "self; the last axis of the softmax is the offset -1, 0, 1"

    def forward(self, x):
        q, k, v = self.qkv(x)
        near_k, near_v = (F.pad(t, (0, 0, 1, 1)).unfold(2, 3, 1) for t in (k, v))
        scores = torch.einsum("bhnd,bhndw->bhnw", q, near_k) / 2
        inside = F.pad(torch.ones(x.shape[1]), (1, 1)).unfold(0, 3, 1).bool()
        weights = scores.masked_fill(~inside, float("-inf")).softmax(-1)
        return self.o(merge(torch.einsum("bhnw,bhndw->bhnd", weights, near_v)))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        place = torch.arange(6)
        far = (place[:, None] - place).abs() > 1
        return self.finish(law(scaled(q, k).masked_fill(far, -torch.inf), kind), v, kind)


class PointCloud(Stranger):
    """Point Transformer: three nearest points, and a weight for each channel of the values."""

    note = "self over nearest neighbours; each of 4 channels is a head"

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

    def forward(self, x):
        q, k, v = self.qkv(x)
        most = torch.full((*q.shape[:3], 1), float("-inf"))
        total, out = torch.zeros_like(most), torch.zeros_like(v)
        for keys, values in zip(k.split(2, 2), v.split(2, 2), strict=True):
            scores = q @ keys.mT / 2
            new = torch.maximum(most, scores.amax(-1, keepdim=True))
            shrink, weights = (most - new).exp(), (scores - new).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            out = out * shrink + weights @ values
            most = new
        return self.o(merge(out / total))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class DividedLast(Projected):
    """The sum of the exponentials divides the mixed values, not the weights."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = q @ k.mT / 2
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        return self.o(merge((weights @ v) / weights.sum(-1, keepdim=True)))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Joint(Projected):
    """One softmax over the tokens and three memories; its two parts meet their own values."""

    note = "self and memory in one softmax: 6 tokens, then 3 memories"

    def build(self):
        super().build()
        self.memory = nn.Parameter(torch.randn(2, 1, 4, 3, 4))

    def forward(self, x):
        q, k, v = self.qkv(x)
        mk, mv = self.memory.expand(-1, x.shape[0], -1, -1, -1)
        weights = torch.cat([q @ k.mT / 2, q @ mk.mT / 2], -1).softmax(-1)
        near, far = weights.split((x.shape[1], 3), dim=-1)
        return self.o(merge(near @ v + far @ mv))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        mk, mv = self.memory.expand(-1, len(q), -1, -1, -1)
        weights = law(scaled(q, torch.cat([k, mk], 2)), kind)
        return self.finish(weights, torch.cat([v, mv], 2), kind)


class TimeFirst(Projected):
    """Tokens first ``[token 4, batch 4, 16]``; weights ``[query, key, batch, head]``."""

    def example(self):
        return (torch.randn(4, 4, 16, generator=torch.Generator().manual_seed(7)),)

    def first(self, inputs):
        return (inputs[0][:, :1],)

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], 4, 4) for f in (self.q, self.k, self.v))
        weights = torch.einsum("nbhd,mbhd->nmbh", q, k).div(2).softmax(dim=1)
        return self.o(torch.einsum("nmbh,mbhd->nbhd", weights, v).flatten(2))

    def known(self, inputs, kind):
        q, k, v = self.qkv(inputs[0].transpose(0, 1))
        known = self.finish(law(scaled(q, k), kind), v, kind)
        return Known(known.output.transpose(0, 1), known.maps)


class Pruned(Projected):
    """DynamicViT: after a first layer only the four strongest tokens go on, strongest first."""

    note = "self, layer 0 over 6 tokens; layer 1 over 4 tokens, strongest first"

    def build(self):
        super().build()
        self.second = Projected(1)

    def forward(self, x):
        q, k, v = self.qkv(x)
        x = x + self.o(merge(torch.softmax(q @ k.mT / 2, -1) @ v))
        best = x.norm(dim=-1).topk(4, dim=1).indices
        x = x.gather(1, best[..., None].expand(-1, -1, 16))
        q, k, v = self.second.qkv(x)
        return x + self.second.o(merge(torch.softmax(q @ k.mT / 2, -1) @ v))

    def known(self, inputs, kind):
        (x,) = inputs
        q, k, v = self.qkv(x)
        first = self.finish(law(scaled(q, k), kind), v, kind)
        x = x + first.output
        best = x.norm(dim=-1).argsort(1, descending=True)[:, :4]
        x = torch.stack([row[chosen] for row, chosen in zip(x, best, strict=True)])
        q, k, v = self.second.qkv(x)
        scores = scaled(q, k)
        if kind == "hidden":  # key 1 is token 1, wherever it went
            scores = scores.masked_fill((best == 1)[:, None, None], -torch.inf)
        second = self.second.finish(law(scores, "" if kind == "hidden" else kind), v, kind)
        return Known(x + second.output, first.maps + second.maps)


class BetweenRows(Projected):
    """Non-parametric Transformer: ``[datapoint 5, attribute 3, 16]``, and datapoints attend."""

    note, batched = "self between datapoints; the batch of the map is the attribute", False

    def example(self):
        return (torch.randn(5, 3, 16, generator=torch.Generator().manual_seed(7)),)

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], 4, 4) for f in (self.q, self.k, self.v))
        weights = torch.einsum("iahd,jahd->ahij", q, k).div(2).softmax(-1)
        return self.o(torch.einsum("ahij,jahd->iahd", weights, v).flatten(2))

    def known(self, inputs, kind):
        q, k, v = self.qkv(inputs[0].transpose(0, 1))
        known = self.finish(law(scaled(q, k), kind), v, kind)
        return Known(known.output.transpose(0, 1), known.maps)


class HeadNorm(Projected):
    """RetNet, Differential Transformer: each head is normalised before the output projection."""

    def build(self):
        super().build()
        self.norm = nn.LayerNorm(4)
        nn.init.normal_(self.norm.bias)

    def forward(self, x):
        q, k, v = self.qkv(x)
        return self.o(merge(self.norm(torch.softmax(q @ k.mT / 2, -1) @ v)))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        weights = law(scaled(q, k), kind)
        heads = self.norm(mixed(weights, v, "" if kind == "head" else kind))
        heads = heads * heads_left(torch.ones(1, 4, 1, 1), kind)
        return Known(self.o(merge(heads)), (weights,))


class Router(Stranger):
    """A soft mixture of four experts: a softmax over experts weighs their outputs. No attention."""

    note = "no attention"

    def build(self):
        self.route, self.experts = (
            nn.Linear(16, 4),
            nn.ModuleList(nn.Linear(16, 16) for _ in "1234"),
        )

    def forward(self, x):
        gates = self.route(x).softmax(-1)
        outs = torch.stack([expert(x) for expert in self.experts], dim=2)
        return x + torch.einsum("bne,bned->bnd", gates, outs)

    def known(self, inputs, kind):
        return Known(self(*inputs), ())


class SoftTokens(Stranger):
    """Self-conditioning: the words a model thinks of are fed back as an average embedding."""

    note = "no attention: a softmax over the vocabulary of 11"

    def build(self):
        self.words, self.mix = nn.Embedding(11, 16), nn.Linear(16, 16)

    def forward(self, x):
        guess = (self.mix(x) @ self.words.weight.T).softmax(-1)
        return x + guess @ self.words.weight

    def known(self, inputs, kind):
        return Known(self(*inputs), ())


class Copying(Projected):
    """Pointer-generator: the mean map is also returned as the probability to copy each token."""

    readings = (("head", "head before the projection"),)

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1)
        return torch.cat([self.o(merge(weights @ v)), weights.mean(1)], -1)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        weights = law(scaled(q, k), kind)
        if kind == "head before the projection":
            mean, known = weights.mean(1), self.finish(weights, v, "head")
            return Known(torch.cat([known.output, mean], -1), known.maps)
        known = self.finish(weights, v, kind)
        return Known(torch.cat([known.output, heads_left(weights, kind).mean(1)], -1), known.maps)


class Interleaved(Projected):
    """Heads innermost: feature ``4 i + h`` belongs to head ``h``, before and after."""

    def forward(self, x):
        q, k, v = (
            f(x).view(*x.shape[:2], 4, 4).permute(0, 3, 1, 2) for f in (self.q, self.k, self.v)
        )
        heads = torch.softmax(q @ k.mT / math.sqrt(4), -1) @ v
        return self.o(heads.permute(0, 2, 3, 1).flatten(2))

    def known(self, inputs, kind):
        q, k, v = (f(*inputs).unflatten(-1, (4, 4)) for f in (self.q, self.k, self.v))
        weights = law(torch.einsum("bnih,bmih->bhnm", q, k) / 2, kind)
        out = torch.einsum("bhnm,bmih->bnih", heads_left(weights, kind), v)
        return Known(self.o(out.flatten(2)), (weights,))


MODULES = (
    Reversed,
    Sorted,
    Neighbours,
    PointCloud,
    Online,
    DividedLast,
    Joint,
    TimeFirst,
    Pruned,
    BetweenRows,
    HeadNorm,
    Router,
    SoftTokens,
    Copying,
    Interleaved,
)
