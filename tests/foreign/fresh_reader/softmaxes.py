"""Odd ways to turn scores into weights, and weights that are changed after the softmax."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import Known, Projected, Stranger
from .parts import heads_left, law, linears, merge, mixed, scaled, split


def future(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


class LogSumExp(Projected):
    """Causal; the softmax as ``exp(s - logsumexp(s))``."""

    def attend(self, q, k, v):
        scores = (q @ k.mT / 2).masked_fill(future(q.shape[2]), float("-inf"))
        return (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).exp() @ v

    def true(self, q, k):
        return scaled(q, k) + torch.full((6, 6), -torch.inf).triu(1)


class InPlace(Projected):
    """One buffer from scores to weights: ``baddbmm``, ``sub_``, ``exp_``, ``div_``."""

    def attend(self, *qkv):
        q, k, v = (t.flatten(0, 1) for t in qkv)
        buffer = torch.empty(q.shape[0], q.shape[1], k.shape[1])
        buffer = torch.baddbmm(buffer, q, k.mT, beta=0.0, alpha=0.5)
        buffer.sub_(buffer.amax(-1, keepdim=True)).exp_()
        buffer.div_(buffer.sum(-1, keepdim=True))
        return torch.bmm(buffer, v).unflatten(0, (-1, 4))


class Cosine(Projected):
    """Swin 2: cosine of queries and keys, times a clamped learned scale for each head."""

    def build(self):
        super().build()
        self.logit_scale = nn.Parameter(torch.log(torch.tensor([2.0, 5.0, 10.0, 200.0])))

    def attend(self, q, k, v):
        scale = torch.clamp(self.logit_scale, max=math.log(100)).exp()[:, None, None]
        scores = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * scale
        return scores.softmax(-1) @ v

    def true(self, q, k):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores / q.norm(dim=-1)[..., :, None] / k.norm(dim=-1)[..., None, :]
        return scores * torch.tensor([2.0, 5.0, 10.0, 100.0])[:, None, None]


class AlibiSink(Projected):
    """A linear distance bias, and a learned sink whose column is dropped after the softmax."""

    def build(self):
        super().build()
        self.sinks = nn.Parameter(torch.randn(4))

    def biased(self, q, k):
        place = torch.arange(q.shape[2])
        slopes = 2.0 ** -torch.arange(1, 5)
        return q @ k.mT / 2 - slopes[:, None, None] * (place[:, None] - place).abs()

    def attend(self, q, k, v):
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], 1)
        combined = torch.cat([self.biased(q, k), sinks], dim=-1)
        combined = combined - combined.max(dim=-1, keepdim=True).values
        return F.softmax(combined, dim=-1)[..., :-1] @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = self.biased(q, k)
        sinks = self.sinks[None, :, None, None].expand(*scores.shape[:3], 1)
        return self.finish(law(torch.cat([scores, sinks], -1), kind)[..., :-1], v, kind)


class TokenTemperature(Projected):
    """Each token learns how sharply each of its heads looks."""

    def build(self):
        super().build()
        self.sharpness = nn.Linear(16, 4)

    def forward(self, x):
        q, k, v = self.qkv(x)
        tau = F.softplus(self.sharpness(x)).permute(0, 2, 1).unsqueeze(-1) + 0.1
        return self.o(merge(torch.softmax((q @ k.mT) / (2 * tau), -1) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        tau = torch.log1p(self.sharpness(*inputs).exp()) + 0.1
        return self.finish(law(scaled(q, k) / tau.mT[..., None], kind), v, kind)


class TopKScatter(Projected):
    """Each query keeps its three best keys: softmax over those, scattered back."""

    readings = (("hidden", "hidden after the choice"),)

    def attend(self, q, k, v):
        scores = q @ k.mT / 2
        best, where = scores.topk(3, dim=-1)
        return torch.zeros_like(scores).scatter(-1, where, best.softmax(-1)) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = scaled(q, k)
        if kind == "hidden":
            scores[..., 1] = -torch.inf
        third = scores.sort(-1, descending=True).values[..., 2:3]
        scores = scores.masked_fill(scores < third, -torch.inf)
        if kind == "hidden after the choice":
            scores[..., 1] = -torch.inf
        return self.finish(law(scores, kind), v, kind)


class Slots(Stranger):
    """Slot attention: slots compete for inputs, so the softmax is over the queries; two rounds."""

    def build(self):
        self.slots = nn.Parameter(torch.randn(3, 16))
        self.q, self.k, self.v = (nn.Linear(16, 16, bias=False) for _ in range(3))
        self.update, self.norm = nn.GRUCell(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        slots = self.slots.expand(x.shape[0], -1, -1)
        k, v = self.k(x), self.v(x)
        for _ in range(2):
            dots = torch.einsum("bid,bjd->bij", self.q(self.norm(slots)), k) * 0.25
            attn = dots.softmax(dim=1) + 1e-8
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.update(updates.reshape(-1, 16), slots.reshape(-1, 16)).view_as(slots)
        return slots

    def known(self, inputs, kind):
        (x,) = inputs
        slots, maps = self.slots[None].repeat(x.shape[0], 1, 1), []
        for _ in range(2):
            scores = self.q(self.norm(slots)) @ self.k(x).mT / 4
            weights = torch.softmax(scores / (2 if kind == "temperature" else 1), 1) + 1e-8
            if kind == "hidden":
                weights[..., 1] = 0
            weights = (weights / weights.sum(-1, keepdim=True))[:, None]
            maps.append(weights)
            new = (heads_left(weights, kind)[:, 0] @ self.v(x)).flatten(0, 1)
            slots = self.update(new, slots.flatten(0, 1)).view_as(slots)
        return Known(slots, tuple(maps))


class RandomFeatures(Projected):
    """Performer: positive random features; the weights are never formed."""

    def build(self):
        super().build()
        self.register_buffer("features", torch.randn(4, 8))

    def phi(self, x):
        x = x / math.sqrt(2)
        return torch.exp(x @ self.features - x.square().sum(-1, keepdim=True) / 2) / math.sqrt(8)

    def attend(self, q, k, v):
        q, k = self.phi(q), self.phi(k)
        context = torch.einsum("bhkf,bhkd->bhfd", k, v)
        total = torch.einsum("bhqf,bhf->bhq", q, k.sum(2))
        return torch.einsum("bhqf,bhfd->bhqd", q, context) / total.unsqueeze(-1)

    def true(self, q, k):
        return (self.phi(q) @ self.phi(k).mT).log()


class AfterSoftmax(Projected, listed=False):
    """What is mixed with the values is a function of the softmax."""

    def attend(self, q, k, v):
        return self.after(torch.softmax(q @ k.mT / 2, -1)) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(self.after(law(scaled(q, k), kind)), v, kind)


class Thresholded(AfterSoftmax):
    """Weights below a bound are dropped and the rest is not made up."""

    def after(self, weights):
        return torch.where(weights > 0.15, weights, torch.zeros_like(weights))


class Sharpened(AfterSoftmax):
    """Inflation, as in Markov clustering: squared and made to sum to one again."""

    def after(self, weights):
        return weights.square() / weights.square().sum(-1, keepdim=True)


class WithItself(AfterSoftmax):
    """Half of each token's weight stays where it is."""

    def after(self, weights):
        return 0.5 * weights + 0.5 * torch.eye(weights.shape[-1])


class Symmetric(AfterSoftmax):
    """The map and its transpose, averaged. A hidden key still looks, so it is seen as a query."""

    def after(self, weights):
        return (weights + weights.mT) / 2


class TwoHops(AfterSoftmax):
    """Diffusion: the map times itself is what meets the values."""

    def after(self, weights):
        return weights @ weights


class Quantised(Projected):
    """The weights are kept as uint8, as an accelerator would, and dequantised for the product."""

    def attend(self, q, k, v):
        weights = torch.softmax(q @ k.mT / 2, -1)
        stored = (weights * 255).round().clamp(0, 255).to(torch.uint8)
        return (stored.float() / 255) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(torch.round(law(scaled(q, k), kind) * 255) / 255, v, kind)


class TwiceApplied(Projected):
    """The same map is applied to the values, and again to what came out."""

    def attend(self, q, k, v):
        weights = torch.softmax(q @ k.mT / 2, -1)
        return 0.5 * v + 0.5 * (weights @ (weights @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        weights = law(scaled(q, k), kind)
        hops = mixed(weights, mixed(weights, v, kind), kind)
        return Known(self.o(merge((v + hops) / 2)), (weights,))


class DualSoftmax(Projected):
    """LoFTR: softmax over keys times softmax over queries."""

    def attend(self, q, k, v):
        scores = q @ k.mT / 2
        return (scores.softmax(-1) * scores.softmax(-2)) @ v

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = scaled(q, k)
        columns = torch.softmax(scores / (2 if kind == "temperature" else 1), -2)
        return self.finish(law(scores, kind) * columns, v, kind)


class BothWays(Stranger):
    """Co-attention: one affinity matrix of 6 and 4 tokens, a softmax along either side."""

    def build(self):
        self.w, self.o1, self.o2 = linears(3)

    def example(self):
        make = torch.Generator().manual_seed(7)
        return torch.randn(2, 6, 16, generator=make), torch.randn(2, 4, 16, generator=make)

    def forward(self, x, y):
        affinity = self.w(x) @ y.transpose(1, 2) / 4
        to_y = torch.softmax(affinity, dim=2) @ y
        to_x = torch.softmax(affinity, dim=1).transpose(1, 2) @ x
        return torch.cat([self.o1(to_y), self.o2(to_x)], 1)

    def known(self, inputs, kind):
        x, y = inputs
        scores = torch.einsum("bid,bjd->bij", self.w(x), y)[:, None] / 4
        one, two = law(scores, kind), law(scores.mT, kind)
        outs = mixed(one, y[:, None], kind)[:, 0], mixed(two, x[:, None], kind)[:, 0]
        return Known(torch.cat([self.o1(outs[0]), self.o2(outs[1])], 1), (one, two))


class MixtureOfSoftmaxes(Projected):
    """Two softmaxes for each head, weighed by a prior of the query; their sum meets the values."""

    def build(self):
        super().build()
        self.q2, self.prior = nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, x):
        q, k, v = self.qkv(x)
        pi = self.prior(x).softmax(-1)[:, None]
        one = (q @ k.mT / 2).softmax(-1)
        two = (split(self.q2(x)) @ k.mT / 2).softmax(-1)
        return self.o(merge((pi[..., :1] * one + pi[..., 1:] * two) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        pi = torch.sigmoid(self.prior(*inputs) @ torch.tensor([1.0, -1.0]))[:, None, :, None]
        one = law(scaled(q, k), kind)
        two = law(scaled(split(self.q2(*inputs)), k), kind)
        return self.finish(pi * one + (1 - pi) * two, v, kind)


class Nystrom(Projected):
    """Nystroem: six tokens meet over two landmarks; the product of three softmaxes is the map."""

    def attend(self, q, k, v):
        lq, lk = (t.unflatten(2, (2, 3)).mean(3) for t in (q, k))
        one = torch.softmax(q @ lk.mT / 2, -1)
        two = torch.softmax(lq @ lk.mT / 2, -1)
        three = torch.softmax(lq @ k.mT / 2, -1)
        return one @ torch.linalg.pinv(two) @ (three @ v)

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        lq, lk = (t.unflatten(2, (2, 3)).mean(3) for t in (q, k))
        scores = scaled(q, lk), scaled(lq, lk), scaled(lq, k)
        # Each softmax is a site of its own; a landmark is no token, so only the last can hide one.
        one, two, three = (law(s, "" if kind == "hidden" else kind) for s in scores)
        three = law(scores[2], kind) if kind == "hidden" else three
        return self.finish(one @ torch.linalg.inv(two) @ three, v, kind)
