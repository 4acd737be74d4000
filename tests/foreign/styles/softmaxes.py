"""What makes weights of scores: softmaxes by hand and by rare names, and what is none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import LAWS, TOKENS, WIDTH, Attention, Block, style


class Own(Block):
    """Weights that no softmax of aten makes: ``soft`` is the style."""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.tap("weights", self.soft(self.tap("scores", self.scores(q, k))))

    def soft(self, s: Tensor) -> Tensor:
        raise NotImplementedError


@style(taps=True)
class ExpOverSum(Own):
    """exp / sum"""

    def soft(self, s: Tensor) -> Tensor:
        e = torch.exp(s)
        return e / e.sum(-1, keepdim=True)


@style(taps=True)
class ExpMinusMax(Own):
    """exp of scores minus their largest, over the sum"""

    def soft(self, s: Tensor) -> Tensor:
        e = (s - s.max(dim=-1, keepdim=True).values).exp()
        return e / torch.sum(e, dim=-1, keepdim=True)


@style(taps=True)
class ExpMinusLogsumexp(Own):
    """exp(scores - logsumexp)"""

    def soft(self, s: Tensor) -> Tensor:
        return torch.exp(s - torch.logsumexp(s, -1, keepdim=True))


@style(taps=True, says="divides by the sum of its weights only after")
class ExpAfterProduct(Own):
    """exp(scores) @ v, divided by the sum afterwards"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        e = self.tap("scores", self.scores(q, k)).exp()
        total = e.sum(-1, keepdim=True)
        self.tap("weights", e / total)
        return self.join(e @ v / total)


@style(taps=True)
class SoftmaxOffByOne(Own):
    """exp / (1 + sum)"""

    def soft(self, s: Tensor) -> Tensor:
        e = s.exp()
        return e / (1 + e.sum(-1, keepdim=True))


@style(row="section 3")
class LogSoftmaxExp(Block):
    """log_softmax().exp()"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return F.log_softmax(self.scores(q, k), dim=-1).exp()


@style(row="section 3")
class Softmin(Block):
    """F.softmin(-scores)"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return F.softmin(-self.scores(q, k), dim=-1)


@style(row="section 3")
class GumbelSoftmax(Block):
    """F.gumbel_softmax: random"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return F.gumbel_softmax(self.scores(q, k), dim=-1)


@style()
class SoftmaxModule(Block):
    """nn.Softmax"""

    def __init__(self) -> None:
        super().__init__()
        self.soft = nn.Softmax(dim=-1)

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.soft(self.scores(q, k))


@style()
class SoftmaxSpecial(Block):
    """torch.special.softmax"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.special.softmax(self.scores(q, k), -1)


@style()
class SoftmaxOfAten(Block):
    """torch.ops.aten._softmax"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.ops.aten._softmax(self.scores(q, k), -1, False)


@style(row="section 3", says="softmax|scaled_dot|fused|kernel|flash|aten")
class KernelOfAten(Block):
    """the fused CPU kernel by its aten name"""

    def attend(self, x: Tensor) -> Tensor:
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return self.join(kernel(*self.qkv(x))[0])


@style()
class SoftmaxOut(Block):
    """torch.softmax into a buffer"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.scores(q, k)
        return torch.softmax(s, -1, out=torch.empty_like(s))


@style(Attention("b(hq)k"))
class SoftmaxFlattened(Block):
    """scores flattened to rows, softmax over dimension -1, and back"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.scores(q, k)
        return s.flatten(1, 2).softmax(-1).view(s.shape)


@style(Attention("(bhq)k"))
class SoftmaxRows(Block):
    """a two-dimensional softmax over all rows (old PyTorch: F.softmax(x.view(-1, t)))"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        s = self.scores(q, k)
        return F.softmax(s.view(-1, TOKENS), dim=1).view(s.shape)


@style()
class SoftmaxTwice(Block):
    """the softmax of float64, the product in float32"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return F.softmax(self.scores(q, k), dim=-1, dtype=torch.float64).float()


@style()
class SoftmaxMasked(Block):
    """torch.masked.softmax"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        mask = torch.ones(TOKENS, TOKENS).tril().bool()
        s = self.scores(q, k)
        return torch.masked.softmax(s, -1, mask=mask.expand(s.shape))


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


@style(taps=True)
class SoftmaxAutograd(Own):
    """the softmax is an autograd.Function by hand"""

    def soft(self, s: Tensor) -> Tensor:
        return SoftmaxOfFunction.apply(s)


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


@style()
class AttentionAutograd(Block):
    """the whole attention is an autograd.Function by hand"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(AttentionOfFunction.apply(*self.qkv(x)))


@style(grad=True)
class AttentionAutogradGrad(AttentionAutograd):
    """the same, with gradients recorded"""


def sparsemax(s: Tensor) -> Tensor:
    """The projection onto the simplex (Martins and Astudillo)."""
    z = s.sort(-1, descending=True).values
    steps = torch.arange(1, s.shape[-1] + 1)
    total = z.cumsum(-1) - 1
    count = (z * steps > total).sum(-1, keepdim=True)
    return (s - total.gather(-1, count - 1) / count).clamp(min=0)


@style(taps=True, row="S16", key=0, laws=LAWS[:3])
class Sparsemax(Own):
    """sparsemax"""

    def soft(self, s: Tensor) -> Tensor:
        return sparsemax(s)


@style(taps=True, row="S16")
class Entmax(Own):
    """entmax 1.5 by bisection"""

    def soft(self, s: Tensor) -> Tensor:
        s = s / 2
        low, high = s.amax(-1, keepdim=True) - 1, s.amax(-1, keepdim=True)
        for _ in range(40):
            middle = (low + high) / 2
            heavy = (s - middle).clamp(min=0).square().sum(-1, keepdim=True) >= 1
            low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
        w = (s - low).clamp(min=0).square()
        return w / w.sum(-1, keepdim=True)


@style(taps=True, row="S16")
class Sigmoid(Own):
    """sigmoid attention: rows do not sum to one"""

    def soft(self, s: Tensor) -> Tensor:
        return torch.sigmoid(s - 2)


@style(taps=True, row="S16")
class SquaredRelu(Own):
    """squared ReLU over the number of keys"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k).relu() + 0.1

    def soft(self, s: Tensor) -> Tensor:
        return s.clamp(min=0).square() / s.shape[-1]


@style(taps=True, row="S16", laws=("head_off", "hidden_key"))
class Argmax(Own):
    """hard attention, straight through"""

    def soft(self, s: Tensor) -> Tensor:
        return F.one_hot(s.argmax(-1), s.shape[-1]).float()


@style(taps=True, row="S16", laws=("head_off",))
class CosineWeights(Own):
    """weights are cosines themselves: signed, no softmax"""

    def soft(self, s: Tensor) -> Tensor:
        return s / s.abs().sum(-1, keepdim=True)


@style(Attention("bqk", heads=1), taps=True, head=0, row="section 3")
class Streaming(Block):
    """flash attention in Python: a running largest score and sum over blocks of keys"""

    def attend(self, x: Tensor) -> Tensor:
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


@style(Attention("qhk"), inputs=edges, taps=True, row="section 3", laws=("temperature", "head_off"))
class ScatterOverEdges(Block):
    """GAT: a softmax over the edges into each node, by scatter and index_add"""

    def attend(self, given: tuple[Tensor, Tensor]) -> Tensor:  # type: ignore[override]
        x, (source, target) = given
        q, k, v = (w(x).view(TOKENS, 4, 8) for w in (self.wq, self.wk, self.wv))
        s = self.tap("scores", (q[target] * k[source]).sum(-1) / 8**0.5)
        e = s.exp()
        total = torch.zeros(TOKENS, 4).index_add(0, target, e)
        w = e / total[target]
        self.tap("weights", w.view(TOKENS, TOKENS, 4).permute(1, 2, 0))
        return torch.zeros(TOKENS, 4, 8).index_add(0, target, w[..., None] * v[source]).flatten(1)

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:  # type: ignore[override]
        return x + self.wo(self.attend((x, graph)))
