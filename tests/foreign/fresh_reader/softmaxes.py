"""Odd ways to turn scores into weights."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.foreign.fresh_reader import Known, Stranger, heads_left, law, merge, mixed, scaled, split


class Projected(Stranger):
    """Four heads of width 4 over 16 features; what most of these modules start from."""

    def build(self):
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))

    def qkv(self, x):
        return split(self.q(x), 4), split(self.k(x), 4), split(self.v(x), 4)

    def finish(self, weights, v, kind):
        return Known(self.o(merge(mixed(weights, v, kind))), (weights,))


class LogSumExp(Projected):
    """Causal; the softmax as ``exp(s - logsumexp(s))``."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = q @ k.mT / 2
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        log_weights = scores - torch.logsumexp(scores, dim=-1, keepdim=True)
        return self.o(merge(log_weights.exp() @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        future = torch.full((6, 6), -torch.inf).triu(1)
        return self.finish(law(scaled(q, k) + future, kind), v, kind)


class InDouble(Projected):
    """The softmax in float64, heads after tokens, and the weights cast back."""

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], 4, 4) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bqhd,bkhd->bqkh", q, k) * 0.5
        weights = scores.double().softmax(dim=2).to(x.dtype)
        return self.o(torch.einsum("bqkh,bkhd->bqhd", weights, v).flatten(2))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class InPlace(Projected):
    """One buffer from scores to weights: ``baddbmm``, ``sub_``, ``exp_``, ``div_``."""

    def forward(self, x):
        q, k, v = (t.flatten(0, 1) for t in self.qkv(x))
        buffer = torch.empty(q.shape[0], q.shape[1], k.shape[1])
        buffer = torch.baddbmm(buffer, q, k.mT, beta=0.0, alpha=0.5)
        buffer.sub_(buffer.amax(-1, keepdim=True)).exp_()
        buffer.div_(buffer.sum(-1, keepdim=True))
        return self.o(merge(torch.bmm(buffer, v).unflatten(0, (-1, 4))))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Cosine(Projected):
    """Swin 2: cosine of queries and keys, times a clamped learned scale for each head."""

    def build(self):
        super().build()
        self.logit_scale = nn.Parameter(torch.log(torch.tensor([2.0, 5.0, 10.0, 200.0])))

    def forward(self, x):
        q, k, v = self.qkv(x)
        scale = torch.clamp(self.logit_scale, max=math.log(100)).exp()[:, None, None]
        attn = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * scale
        return self.o((attn.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        scores = scores / q.norm(dim=-1)[..., :, None] / k.norm(dim=-1)[..., None, :]
        return self.finish(
            law(scores * torch.tensor([2.0, 5.0, 10.0, 100.0])[:, None, None], kind), v, kind
        )


class AlibiSink(Projected):
    """A linear distance bias, and a learned sink whose column is dropped after the softmax."""

    def build(self):
        super().build()
        self.sinks = nn.Parameter(torch.randn(4))

    def biased(self, q, k):
        place = torch.arange(q.shape[2])
        slopes = 2.0 ** -torch.arange(1, 5)
        return q @ k.mT / 2 - slopes[:, None, None] * (place[:, None] - place).abs()

    def forward(self, x):
        q, k, v = self.qkv(x)
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(x.shape[0], -1, x.shape[1], 1)
        combined = torch.cat([self.biased(q, k), sinks], dim=-1)
        combined = combined - combined.max(dim=-1, keepdim=True).values
        weights = F.softmax(combined, dim=-1)[..., :-1]
        return self.o(merge(weights @ v))

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


class Quantised(Projected):
    """The weights are kept as uint8, as an accelerator would, and dequantised for the product."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1)
        stored = (weights * 255).round().clamp(0, 255).to(torch.uint8)
        return self.o(merge((stored.float() / 255) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(torch.round(law(scaled(q, k), kind) * 255) / 255, v, kind)


class TopKScatter(Projected):
    """Each query keeps its three best keys: softmax over those, scattered back."""

    readings = (("hidden", "hidden after the choice"),)

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = q @ k.mT / 2
        best, where = scores.topk(3, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, where, best.softmax(-1))
        return self.o(merge(weights @ v))

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


class Edges(Stranger):
    """Graph attention: scores live on edges, the softmax is a scatter by receiving node."""

    note, batched = "self, a node looks at its senders", False

    def build(self):
        self.value, self.o = nn.Linear(16, 16, bias=False), nn.Linear(16, 16)
        self.send, self.receive = (nn.Parameter(torch.randn(4, 4)) for _ in range(2))

    def example(self):
        senders = torch.arange(5).repeat_interleave(5)
        receivers = torch.arange(5).repeat(5)
        kept = torch.rand(25, generator=torch.Generator().manual_seed(3)) < 0.7
        kept |= (senders == receivers) | (senders == (receivers + 2) % 5)
        return torch.randn(5, 16, generator=torch.Generator().manual_seed(7)), torch.stack(
            [senders[kept], receivers[kept]]
        )

    def forward(self, x, edges):
        source, target = edges
        values = self.value(x).view(-1, 4, 4)
        scores = (values * self.send).sum(-1)[source] + (values * self.receive).sum(-1)[target]
        scores = F.leaky_relu(scores, 0.2)
        index = target[:, None].expand_as(scores)
        most = torch.full((x.shape[0], 4), -torch.inf).scatter_reduce(0, index, scores, "amax")
        scores = (scores - most[target]).exp()
        weights = scores / torch.zeros(x.shape[0], 4).index_add(0, target, scores)[target]
        out = torch.zeros_like(values).index_add(0, target, weights[..., None] * values[source])
        return self.o(out.flatten(1))

    def known(self, inputs, kind):
        x, edges = inputs
        v = self.value(x).view(5, 4, 4)
        sent, received = torch.einsum("nhd,hd->hn", v, self.send), (v * self.receive).sum(-1).T
        scores = F.leaky_relu(received[:, :, None] + sent[:, None, :], 0.2)
        linked = torch.zeros(5, 5, dtype=torch.bool)
        linked[edges[1], edges[0]] = True
        weights = law(scores.masked_fill(~linked, -torch.inf)[None], kind)
        return Known(self.o(merge(mixed(weights, v.transpose(0, 1)[None], kind))[0]), (weights,))


class Complex(Projected):
    """Complex queries and keys; the score is the real part of their Hermitian product."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        q, k = (torch.view_as_complex(t.unflatten(-1, (2, 2)).contiguous()) for t in (q, k))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k.conj()).real * 0.5
        return self.o(merge(scores.softmax(-1) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
        ctx.save_for_backward(q, k, v, weights)
        return weights @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        inner = grad @ v.mT
        inner = weights * (inner - (inner * weights).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        return inner @ k, inner.mT @ q, weights.mT @ grad


class OwnGradient(Projected):
    """The attention is a ``torch.autograd.Function`` with a hand-written backward."""

    gradients = True

    def forward(self, x):
        return self.o(merge(_Attend.apply(*self.qkv(x))))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law(scaled(q, k), kind), v, kind)


class Slots(Stranger):
    """Slot attention: slots compete for inputs, so the softmax is over the queries; two rounds."""

    note = "cross, slots look at inputs, one head, two rounds"

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

    def forward(self, x):
        q, k, v = self.qkv(x)
        q, k = self.phi(q), self.phi(k)
        context = torch.einsum("bhkf,bhkd->bhfd", k, v)
        total = torch.einsum("bhqf,bhf->bhq", q, k.sum(2))
        return self.o(merge(torch.einsum("bhqf,bhfd->bhqd", q, context) / total.unsqueeze(-1)))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(law((self.phi(q) @ self.phi(k).mT).log(), kind), v, kind)


MODULES = (
    LogSumExp,
    InDouble,
    InPlace,
    Cosine,
    AlibiSink,
    TokenTemperature,
    Quantised,
    TopKScatter,
    Edges,
    Complex,
    OwnGradient,
    Slots,
    RandomFeatures,
)
