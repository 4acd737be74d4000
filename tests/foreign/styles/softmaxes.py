"""What makes weights of scores: softmaxes by hand and by rare names, and what is none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import LAWS, TOKENS, WIDTH, Attention, Block, enter, options, ways


class Own(Block):
    """Weights that no softmax of aten makes."""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.tap("weights", self.soft(self.tap("scores", self.scores(q, k))))


class SoftmaxOfFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor) -> Tensor:
        w = s.sub(s.amax(-1, keepdim=True)).exp()
        w = w / w.sum(-1, keepdim=True)
        ctx.save_for_backward(w)
        return w

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (w,) = ctx.saved_tensors
        return w * (g - (g * w).sum(-1, keepdim=True))


TAPS = {"taps": True}
NO_SOFTMAX = {"taps": True, "row": "S16"}


@ways("soft", Own)
class ByHand:
    """Weights of scores without a softmax call."""

    @options(**TAPS)
    def exp_over_sum(self, s):
        """exp / sum"""
        e = torch.exp(s)
        return e / e.sum(-1, keepdim=True)

    @options(**TAPS)
    def exp_minus_max(self, s):
        """exp of scores minus their largest, over the sum"""
        e = (s - s.max(dim=-1, keepdim=True).values).exp()
        return e / torch.sum(e, dim=-1, keepdim=True)

    @options(**TAPS)
    def exp_minus_logsumexp(self, s):
        """exp(scores - logsumexp)"""
        return torch.exp(s - torch.logsumexp(s, -1, keepdim=True))

    @options(**TAPS)
    def softmax_off_by_one(self, s):
        """exp / (1 + sum)"""
        e = s.exp()
        return e / (1 + e.sum(-1, keepdim=True))

    @options(**TAPS)
    def softmax_autograd(self, s):
        """the softmax is an autograd.Function by hand"""
        return SoftmaxOfFunction.apply(s)

    @options(**NO_SOFTMAX, key=0, laws=LAWS[:3])
    def sparsemax(self, s):
        """sparsemax: the projection onto the simplex (Martins and Astudillo)"""
        z = s.sort(-1, descending=True).values
        steps = torch.arange(1, s.shape[-1] + 1)
        total = z.cumsum(-1) - 1
        count = (z * steps > total).sum(-1, keepdim=True)
        return (s - total.gather(-1, count - 1) / count).clamp(min=0)

    @options(**NO_SOFTMAX)
    def entmax(self, s):
        """entmax 1.5 by bisection"""
        s = s / 2
        low, high = s.amax(-1, keepdim=True) - 1, s.amax(-1, keepdim=True)
        for _ in range(40):
            middle = (low + high) / 2
            heavy = (s - middle).clamp(min=0).square().sum(-1, keepdim=True) >= 1
            low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
        w = (s - low).clamp(min=0).square()
        return w / w.sum(-1, keepdim=True)

    @options(**NO_SOFTMAX)
    def sigmoid(self, s):
        """sigmoid attention: rows do not sum to one"""
        return torch.sigmoid(s - 2)

    @options(**NO_SOFTMAX, laws=("head_off", "hidden_key"))
    def argmax(self, s):
        """hard attention, straight through"""
        return F.one_hot(s.argmax(-1), s.shape[-1]).float()

    @options(**NO_SOFTMAX, laws=("head_off",))
    def cosine_weights(self, s):
        """weights are cosines themselves: signed, no softmax"""
        return s / s.abs().sum(-1, keepdim=True)


squared_relu = Own.of(
    scores=lambda self, q, k: Block.scores(self, q, k).relu() + 0.1,
    soft=lambda self, s: s.clamp(min=0).square() / s.shape[-1],
)
enter("squared_relu", "squared ReLU over the number of keys", squared_relu, **NO_SOFTMAX)


@ways("combine")
class Late:
    @options(**TAPS, says="divides by the sum of its weights only after")
    def exp_after_product(self, q, k, v):
        """exp(scores) @ v, divided by the sum afterwards"""
        e = self.tap("scores", self.scores(q, k)).exp()
        total = e.sum(-1, keepdim=True)
        self.tap("weights", e / total)
        return e @ v / total


@ways("soft")
class Named:
    """Softmaxes of torch, by all their names."""

    @options(row="section 3")
    def log_softmax_exp(self, s):
        """log_softmax().exp()"""
        return F.log_softmax(s, dim=-1).exp()

    @options(row="section 3")
    def softmin(self, s):
        """F.softmin(-scores)"""
        return F.softmin(-s, dim=-1)

    @options(row="section 3")
    def gumbel_softmax(self, s):
        """F.gumbel_softmax: random"""
        return F.gumbel_softmax(s, dim=-1)

    @options(parts=lambda: {"layer": nn.Softmax(dim=-1)})
    def softmax_module(self, s):
        """nn.Softmax"""
        return self.layer(s)

    def softmax_special(self, s):
        """torch.special.softmax"""
        return torch.special.softmax(s, -1)

    def softmax_of_aten(self, s):
        """torch.ops.aten._softmax"""
        return torch.ops.aten._softmax(s, -1, False)

    def softmax_out(self, s):
        """torch.softmax into a buffer"""
        return torch.softmax(s, -1, out=torch.empty_like(s))

    @options(Attention("b(hq)k"))
    def softmax_flattened(self, s):
        """scores flattened to rows, softmax over dimension -1, and back"""
        return s.flatten(1, 2).softmax(-1).view(s.shape)

    @options(Attention("(bhq)k"))
    def softmax_rows(self, s):
        """a two-dimensional softmax over all rows (old PyTorch: F.softmax(x.view(-1, t)))"""
        return F.softmax(s.view(-1, TOKENS), dim=1).view(s.shape)

    def softmax_twice(self, s):
        """the softmax of float64, the product in float32"""
        return F.softmax(s, dim=-1, dtype=torch.float64).float()

    def softmax_masked(self, s):
        """torch.masked.softmax"""
        mask = torch.ones(TOKENS, TOKENS).tril().bool()
        return torch.masked.softmax(s, -1, mask=mask.expand(s.shape))


class AttentionOfFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        ctx.save_for_backward(q, k, v, w)
        return w @ v

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, w = ctx.saved_tensors
        gw = g @ v.mT
        gs = w * (gw - (gw * w).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return gs @ k, gs.mT @ q, w.mT @ g


@ways("combine")
class Kernels:
    """Attention in one call."""

    def attention_autograd(self, q, k, v):
        """the whole attention is an autograd.Function by hand"""
        return AttentionOfFunction.apply(q, k, v)

    @options(grad=True)
    def attention_autograd_grad(self, q, k, v):
        """the same, with gradients recorded"""
        return AttentionOfFunction.apply(q, k, v)

    @options(row="section 3", says="softmax|scaled_dot|fused|kernel|flash|aten")
    def kernel_of_aten(self, q, k, v):
        """the fused CPU kernel by its aten name"""
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0]


@ways("attend")
class Streams:
    @options(Attention("bqk", heads=1), **TAPS, head=0, row="section 3")
    def streaming(self, x):
        """flash attention in Python: a running largest score and sum over blocks of keys"""
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        s = self.tap("scores", q @ k.mT / WIDTH**0.5)
        top = torch.full((*s.shape[:2], 1), -torch.inf)
        total, out = torch.zeros_like(top), torch.zeros_like(v)
        for start in range(0, TOKENS, 3):
            part = s[..., start : start + 3]
            new = torch.maximum(top, part.amax(-1, keepdim=True))
            e, old = (part - new).exp(), (top - new).exp()
            total = total * old + e.sum(-1, keepdim=True)
            out, top = out * old + e @ v[:, start : start + 3], new
        self.tap("weights", (s - top).exp() / total)
        return out / total


def edges() -> tuple[Tensor, Tensor]:
    """Vectors of nodes ``[node, width]``, and the edges (from, to) of a full graph."""
    node = torch.arange(TOKENS)
    return torch.randn(TOKENS, WIDTH), torch.cartesian_prod(node, node).T


@ways("forward")
class Graph:
    @options(
        *(Attention("qhk"),),
        **TAPS,
        inputs=edges,
        row="section 3",
        laws=("temperature", "head_off"),
    )
    def scatter_over_edges(self, x, graph):
        """GAT: a softmax over the edges into each node, by scatter and index_add"""
        source, target = graph
        q, k, v = (w(x).view(TOKENS, 4, 8) for w in (self.wq, self.wk, self.wv))
        s = self.tap("scores", (q[target] * k[source]).sum(-1) / 8**0.5)
        e = s.exp()
        total = torch.zeros(TOKENS, 4).index_add(0, target, e)
        w = e / total[target]
        self.tap("weights", w.view(TOKENS, TOKENS, 4).permute(1, 2, 0))
        summed = torch.zeros(TOKENS, 4, 8).index_add(0, target, w[..., None] * v[source])
        return x + self.wo(summed.flatten(1))
