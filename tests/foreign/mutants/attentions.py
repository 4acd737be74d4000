"""Ways to write attention, one module each, of three heads of eight on seven tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS, WIDTH = 3, 24


class Attend(nn.Module):
    """Eager self- or cross-attention; what differs stands in `weigh` and `mix`."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width) for _ in range(4))
        with torch.no_grad():  # logits near 1: an edit is to make a difference
            self.wq.weight *= 2
            self.wk.weight *= 2

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        return self.wo(x.transpose(1, 2).flatten(2))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        y = x if y is None else y
        return self.mix(
            self.split(self.wq(x)), self.split(self.wk(y)), self.split(self.wv(y)), mask
        )

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.scores(q, k)
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        return self.join(scores.softmax(-1) @ v)


class RootMeanSquare(nn.Module):
    """A norm by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(1 + torch.randn(WIDTH) / 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Rotary(Attend):
    """Rotary positions, and the mask added."""

    def turned(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        step = 10.0 ** -torch.arange(half)
        angle = torch.arange(x.shape[2])[:, None] * step
        angle = torch.cat((angle, angle), -1)
        other = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * angle.cos() + other * angle.sin()

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        later = torch.full((q.shape[2], k.shape[2]), -torch.inf).triu(1)
        scores = self.scores(self.turned(q), self.turned(k)) + later
        return self.join(F.softmax(scores, -1) @ v)


class Late(Attend):
    """The mask comes by `where`, and before the scores are scaled."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        assert mask is not None
        scores = torch.where(~mask, q @ k.mT, torch.tensor(-1e9)) / q.shape[-1] ** 0.5
        return self.join(scores.softmax(-1) @ v)


class Written(Attend):
    """Attention written in one of several ways; ``how`` names it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how


class Biased(Written):
    """A bias by distance: ``one tensor`` with a mask (T5), in ``one call`` with the product
    (BLOOM), or ``fused`` with a mask in one tensor (SDPA)."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.slope = nn.Parameter(torch.tensor([0.3, 0.7, 1.1]))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        places = torch.arange(q.shape[2])
        later = places[:, None] < places
        far = (places[:, None] - places).abs() * -self.slope[:, None, None]
        scale = q.shape[-1] ** -0.5
        if self.how == "fused":
            far = far.masked_fill(later, -torch.inf)
            return self.join(F.scaled_dot_product_attention(q, k, v, far[None]))
        if self.how == "one tensor":
            far = far + torch.full(far.shape[1:], -torch.inf).triu(1)
            return self.join((q @ k.mT * scale + far[None]).softmax(-1) @ v)
        far = far.repeat(len(q), 1, 1)
        scores = far.baddbmm(q.flatten(0, 1), k.flatten(0, 1).mT, beta=0.5, alpha=scale)
        scores = scores.unflatten(0, (len(q), -1)).masked_fill(later, -1e9)
        return self.join(scores.softmax(-1) @ v)


class Fused(Written):
    """SDPA: ``causal``, or with a ``scale`` of its own and a bool mask."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if self.how == "causal":
            return self.join(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        seen = None if mask is None else ~mask
        return self.join(F.scaled_dot_product_attention(q, k, v, seen, scale=0.21))


class FewKeys(Attend):
    """Four query heads, two key heads: SDPA, repeated keys, or an einsum of five letters; or one
    key head, expanded."""

    def __init__(self, how: str) -> None:
        super().__init__(heads=4)
        self.how = how
        self.wk, self.wv = (nn.Linear(WIDTH, WIDTH // 2) for _ in range(2))
        with torch.no_grad():
            self.wk.weight *= 3

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        q = self.split(self.wq(x))
        k, v = (w(x).unflatten(-1, (2, -1)).transpose(1, 2) for w in (self.wk, self.wv))
        if self.how == "fused":
            return self.join(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
        if self.how == "expand":
            k, v = (t[:, :1].expand(-1, self.heads, -1, -1) for t in (k, v))
            return self.mix(q, k, v, mask)
        if self.how == "repeat":
            return self.mix(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), mask)
        w = torch.einsum("bgrqd,bgkd->bgrqk", q.unflatten(1, (2, 2)), k) / 6**0.5
        out = torch.einsum("bgrqk,bgkd->bgrqd", w.softmax(-1), v)
        return self.join(out.flatten(1, 2))


class Letters(Written):
    """Heads last in the scores, merged behind the batch, before it, or turned on the way."""

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (HEADS, -1)) for w in (self.wq, self.wk, self.wv))
        scale = q.shape[-1] ** -0.5
        if self.how == "last":
            w = (torch.einsum("bihd,bjhd->bijh", q, k) * scale).softmax(2)
            return self.wo(torch.einsum("bijh,bjhd->bihd", w, v).flatten(2))
        if self.how == "turned":
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            w = (self.scores(q, k).permute(0, 2, 3, 1)).softmax(2).permute(0, 3, 1, 2)
            return self.join(w @ v)
        if self.how == "merged":
            q, k, v = (t.transpose(1, 2).flatten(0, 1) for t in (q, k, v))
            w = (torch.einsum("bid,bjd->bij", q, k) * scale).softmax(-1)
            return self.join((w @ v).unflatten(0, (-1, HEADS)))
        q, k, v = (torch.cat(t.flatten(2).chunk(HEADS, -1), 0) for t in (q, k, v))
        w = (torch.bmm(q, k.mT) * scale).softmax(-1)
        return self.wo(torch.cat((w @ v).chunk(HEADS, 0), -1))


class Windows(Attend):
    """Windows of four tokens, scores of five axes ``[batch, window, head, query, key]``."""

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        parts, three = x.unflatten(1, (-1, 4)), (self.wq, self.wk, self.wv)
        q, k, v = (w(parts).unflatten(-1, (HEADS, -1)).transpose(2, 3) for w in three)
        out = self.scores(q, k).softmax(-1) @ v
        return self.wo(out.transpose(2, 3).flatten(3)).flatten(1, 2)


class Sink(Attend):
    """A learned column beside the scores, dropped after the softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = nn.Parameter(torch.randn(HEADS))

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.scores(q, k)
        scores = scores if mask is None else scores.masked_fill(mask, -torch.inf)
        column = self.sink[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.cat((scores, column), -1).softmax(-1)[..., :-1]
        return self.join(weights @ v)


class OneHead(nn.Module):
    """One head of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, 8, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).mT
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ self.value(x)


class HeadList(nn.Module):
    """Heads that are modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(OneHead() for _ in range(HEADS))
        self.wo = nn.Linear(HEADS * 8, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.wo(torch.cat([part(x) for part in self.parts], -1))


class Parts(Attend):
    """Three queries at a time."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        parts = [self.scores(part, k).softmax(-1) @ v for part in q.split(3, 2)]
        return self.join(torch.cat(parts, 2))


class ByHand(Written):
    """Weights that no softmax call makes; ``sum`` weighs by broadcasting and a sum."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = self.scores(q, k)
        if self.how == "sum":
            return self.join((scores.softmax(-1)[..., None] * v[:, :, None]).sum(-2))
        if self.how == "added":  # Bahdanau: no product makes the scores
            scores = (q[:, :, :, None] + k[:, :, None]).tanh().sum(-1)
            return self.join(scores.softmax(-1) @ v)
        raised = (scores - scores.amax(-1, keepdim=True)).exp()
        return self.join(raised / raised.sum(-1, keepdim=True) @ v)


class Scaled(Attend):
    """Keys first, then a bound by tanh (Gemma 2), over the axis before the last."""

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = 5 * torch.tanh(k @ (q / q.shape[-1] ** 0.5).mT / 5)
        return self.join(scores.softmax(-2).mT @ v)


class LibraryAttention(nn.Module):
    """nn.MultiheadAttention."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        with torch.no_grad():
            self.inner.in_proj_weight *= 2

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]
