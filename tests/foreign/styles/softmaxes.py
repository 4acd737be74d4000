"""What makes weights of scores: softmaxes by hand and by rare names, and what is none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import LAWS, TOKENS, WIDTH, Attention, Block, enter, options, variants, ways


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
    def softmax_off_by_one(self, s):
        """exp / (1 + sum)"""
        e = s.exp()
        return e / (1 + e.sum(-1, keepdim=True))

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


variants("soft", {
    "exp_minus_logsumexp": ("exp(scores - logsumexp)",
                            lambda self, s: torch.exp(s - torch.logsumexp(s, -1, keepdim=True))),
    "softmax_autograd": ("the softmax is an autograd.Function by hand",
                         lambda self, s: SoftmaxOfFunction.apply(s)),
}, Own, **TAPS)  # fmt: skip
for name, about, soft, laws in (
    ("sigmoid", "rows do not sum to one", lambda self, s: torch.sigmoid(s - 2), LAWS),
    ("argmax", "hard attention, straight through",
     lambda self, s: F.one_hot(s.argmax(-1), s.shape[-1]).float(), ("head_off", "hidden_key")),
    ("cosine_weights", "weights are cosines themselves: signed, no softmax",
     lambda self, s: s / s.abs().sum(-1, keepdim=True), ("head_off",)),
):  # fmt: skip
    variants("soft", {name: (about, soft)}, Own, laws=laws, **NO_SOFTMAX)
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


variants("soft", {
    "log_softmax_exp": ("log_softmax().exp()", lambda self, s: F.log_softmax(s, dim=-1).exp()),
    "softmin": ("F.softmin(-scores)", lambda self, s: F.softmin(-s, dim=-1)),
    "gumbel_softmax": ("random", lambda self, s: F.gumbel_softmax(s, dim=-1)),
}, row="section 3")  # fmt: skip
variants("soft", {
    "softmax_module": ("nn.Softmax", lambda self, s: self.layer(s)),
}, Block.of(parts=lambda self: {"layer": nn.Softmax(dim=-1)}))  # fmt: skip
variants("soft", {
    "softmax_special": ("torch.special.softmax", lambda self, s: torch.special.softmax(s, -1)),
    "softmax_of_aten": ("_softmax", lambda self, s: torch.ops.aten._softmax(s, -1, False)),
    "softmax_out": (
        "torch.softmax into a buffer",
        lambda self, s: torch.softmax(s, -1, out=torch.empty_like(s)),
    ),
    "softmax_twice": (
        "the softmax of float64, the product in float32",
        lambda self, s: F.softmax(s, dim=-1, dtype=torch.float64).float(),
    ),
    "softmax_masked": (
        "torch.masked.softmax",
        lambda self, s: torch.masked.softmax(
            s, -1, mask=torch.ones(TOKENS, TOKENS).tril().bool().expand(s.shape)
        ),
    ),
})  # fmt: skip


@ways("soft")
class Flattened:
    @options(Attention("b(hq)k"))
    def softmax_flattened(self, s):
        """scores flattened to rows, softmax over dimension -1, and back"""
        return s.flatten(1, 2).softmax(-1).view(s.shape)

    @options(Attention("(bhq)k"))
    def softmax_rows(self, s):
        """a two-dimensional softmax over all rows (old PyTorch: F.softmax(x.view(-1, t)))"""
        return F.softmax(s.view(-1, TOKENS), dim=1).view(s.shape)


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
