"""A fourth round: the softmax is not the last word about the weights."""

from __future__ import annotations

import torch
from torch import nn

from tests.foreign.fresh_reader import Known, Stranger, heads_left, law, merge, mixed, scaled, split
from tests.foreign.fresh_reader.softmaxes import Projected


class AfterSoftmax(Projected):
    """What is mixed with the values is a function of the softmax."""

    def after(self, weights):
        return weights

    def forward(self, x):
        q, k, v = self.qkv(x)
        return self.o(merge(self.after(torch.softmax(q @ k.mT / 2, -1)) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        return self.finish(self.after(law(scaled(q, k), kind)), v, kind)


class Thresholded(AfterSoftmax):
    """Weights below a tenth are dropped and the rest is not made up."""

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


class TwiceApplied(Projected):
    """The same map is applied to the values, and again to what came out."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        weights = torch.softmax(q @ k.mT / 2, -1)
        return self.o(merge(0.5 * v + 0.5 * (weights @ (weights @ v))))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        weights = law(scaled(q, k), kind)
        hops = mixed(weights, mixed(weights, v, kind), kind)
        return Known(self.o(merge((v + hops) / 2)), (weights,))


class DualSoftmax(Projected):
    """LoFTR: softmax over keys times softmax over queries."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = q @ k.mT / 2
        return self.o(merge((scores.softmax(-1) * scores.softmax(-2)) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        scores = scaled(q, k)
        columns = torch.softmax(scores / (2 if kind == "temperature" else 1), -2)
        return self.finish(law(scores, kind) * columns, v, kind)


class BothWays(Stranger):
    """Co-attention: one affinity matrix of 6 and 4 tokens, a softmax along either side."""

    note = "cross: 6 over 4, and 4 over 6, from one matrix"

    def build(self):
        self.w, self.o1, self.o2 = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

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
        two = (split(self.q2(x), 4) @ k.mT / 2).softmax(-1)
        return self.o(merge((pi[..., :1] * one + pi[..., 1:] * two) @ v))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        pi = torch.sigmoid(self.prior(*inputs) @ torch.tensor([1.0, -1.0]))[:, None, :, None]
        one = law(scaled(q, k), kind)
        two = law(scaled(split(self.q2(*inputs), 4), k), kind)
        return self.finish(pi * one + (1 - pi) * two, v, kind)


class Nystrom(Projected):
    """Nystroem: six tokens meet over two landmarks; the product of three softmaxes is the map."""

    def forward(self, x):
        q, k, v = self.qkv(x)
        lq, lk = (t.unflatten(2, (2, 3)).mean(3) for t in (q, k))
        one = torch.softmax(q @ lk.mT / 2, -1)
        two = torch.softmax(lq @ lk.mT / 2, -1)
        three = torch.softmax(lq @ k.mT / 2, -1)
        return self.o(merge(one @ torch.linalg.pinv(two) @ (three @ v)))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        lq, lk = (t.unflatten(2, (2, 3)).mean(3) for t in (q, k))
        scores = scaled(q, lk), scaled(lq, lk), scaled(lq, k)
        # Each softmax is a site of its own; a landmark is no token, so only the last can hide one.
        one, two, three = (law(s, "" if kind == "hidden" else kind) for s in scores)
        three = law(scores[2], kind) if kind == "hidden" else three
        weights = one @ torch.linalg.inv(two) @ three
        return Known(self.o(merge(mixed(weights, v, kind))), (weights,))


class RelativeValues(Projected):
    """Shaw: the weights also meet an embedding of the distance, and both sums are added."""

    def build(self):
        super().build()
        self.far = nn.Embedding(11, 4)

    def forward(self, x):
        q, k, v = self.qkv(x)
        place = torch.arange(x.shape[1])
        r = self.far(place[:, None] - place + 5)
        weights = torch.softmax(q @ k.mT / 2, -1)
        return self.o(merge(weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, r)))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        place = torch.arange(6)
        r = self.far.weight[place[:, None] - place + 5]
        weights = law(scaled(q, k), kind)
        left = heads_left(weights, kind)
        out = (left[..., None] * (v[:, :, None] + r)).sum(-2)
        return Known(self.o(merge(out)), (weights,))


class ShiftedWindows(Projected):
    """Swin in one dimension: rolled by one, windows of three, rolled back; two windows wrap."""

    note = "self; the batch of the map is sentence and window, tokens rolled by one"

    def forward(self, x):
        b, n, c = x.shape
        windows = torch.roll(x, -1, dims=1).view(b * n // 3, 3, c)
        q, k, v = self.qkv(windows)
        out = merge((q @ k.mT / 2).softmax(-1) @ v).view(b, n, c)
        return self.o(torch.roll(out, 1, dims=1))

    def known(self, inputs, kind):
        q, k, v = self.qkv(*inputs)
        block = torch.tensor([1, 0, 0, 0, 1, 1])
        scores = scaled(q, k).masked_fill(block[:, None] != block, -torch.inf)
        return self.finish(law(scores, kind), v, kind)


MODULES = (
    Thresholded,
    Sharpened,
    WithItself,
    Symmetric,
    TwoHops,
    TwiceApplied,
    DualSoftmax,
    BothWays,
    MixtureOfSoftmaxes,
    Nystrom,
    RelativeValues,
    ShiftedWindows,
)
