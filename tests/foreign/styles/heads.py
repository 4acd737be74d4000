"""Heads: shared keys, loops, mixed heads, gates."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import HEADS, TOKENS, WIDTH, Attention, Block, style


class FewKeys(Block):
    """Keys and values of fewer heads than queries have."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.wk, self.wv = (nn.Linear(WIDTH, 8 * groups) for _ in range(2))
        with torch.no_grad():
            self.wk.weight *= 3

    def shared(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """k and v ``[batch, group, token, width of a head]``."""
        k, v = (w(x).view(len(x), -1, self.groups, 8).transpose(1, 2) for w in (self.wk, self.wv))
        return k, v


@style(row="S6")
class MqaEinsum(FewKeys):
    """one key head: einsum "bhid,bjd->bhij" """

    def __init__(self) -> None:
        super().__init__(1)

    def attend(self, x: Tensor) -> Tensor:
        q, (k, v) = self.split(self.wq(x)), self.shared(x)
        w = torch.einsum("bhid,bjd->bhij", q, k[:, 0]).div(8**0.5).softmax(-1)
        return self.join(torch.einsum("bhij,bjd->bhid", w, v[:, 0]))


@style()
class MqaMatmul(FewKeys):
    """one key head, matmul broadcasts it"""

    def __init__(self) -> None:
        super().__init__(1)

    def attend(self, x: Tensor) -> Tensor:
        q, (k, v) = self.split(self.wq(x)), self.shared(x)
        return self.join(self.weigh(q, k) @ v)


@style(Attention("b(qh)k"), row="S6")
class MqaFolded(FewKeys):
    """one key head, heads folded into the queries: bmm of [b, q x h, d]"""

    def __init__(self) -> None:
        super().__init__(1)

    def attend(self, x: Tensor) -> Tensor:
        k, v = self.shared(x)
        q = self.wq(x).view(len(x), TOKENS * HEADS, 8)
        w = torch.bmm(q, k[:, 0].mT).div(8**0.5).softmax(-1)
        return torch.bmm(w, v[:, 0]).view(x.shape)


@style(Attention("bgrqk"), row="S6")
class GqaEinsum(FewKeys):
    """two groups: einsum "bgrqd,bgkd->bgrqk" """

    def __init__(self) -> None:
        super().__init__(2)

    def attend(self, x: Tensor) -> Tensor:
        q, (k, v) = self.split(self.wq(x)).unflatten(1, (2, 2)), self.shared(x)
        w = torch.einsum("bgrqd,bgkd->bgrqk", q, k).div(8**0.5).softmax(-1)
        return self.join(torch.einsum("bgrqk,bgkd->bgrqd", w, v).flatten(1, 2))


@style(Attention("bgrqk"), row="S11")
class GqaFiveAxes(FewKeys):
    """two groups: matmul of five axes, keys broadcast"""

    def __init__(self) -> None:
        super().__init__(2)

    def attend(self, x: Tensor) -> Tensor:
        q, (k, v) = self.split(self.wq(x)).unflatten(1, (2, 2)), self.shared(x)
        w = (q @ k[:, :, None].mT / 8**0.5).softmax(-1)
        return self.join((w @ v[:, :, None]).flatten(1, 2))


@style()
class GqaRepeat(FewKeys):
    """two groups: repeat_interleave"""

    def __init__(self) -> None:
        super().__init__(2)

    def attend(self, x: Tensor) -> Tensor:
        q, (k, v) = self.split(self.wq(x)), self.shared(x)
        return self.join(self.weigh(q, k.repeat_interleave(2, 1)) @ v.repeat_interleave(2, 1))


@style()
class GqaSdpa(FewKeys):
    """two groups: SDPA with enable_gqa"""

    def __init__(self) -> None:
        super().__init__(2)

    def attend(self, x: Tensor) -> Tensor:
        q, (k, v) = self.split(self.wq(x)), self.shared(x)
        return self.join(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))


@style(Attention("bqk", parts=4), row="S4")
class LoopOverHeads(Block):
    """a Python loop over the heads, torch.cat"""

    def attend(self, x: Tensor) -> Tensor:
        out = []
        for q, k, v in zip(
            *(w(x).chunk(HEADS, -1) for w in (self.wq, self.wk, self.wv)), strict=True
        ):
            out.append(self.weigh(q, k) @ v)
        return torch.cat(out, -1)


class Single(nn.Module):
    """One head of a list, as in Karpathy's and Raschka's lessons."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, 8, bias=False) for _ in range(3))
        with torch.no_grad():
            self.query.weight *= 3
            self.key.weight *= 3

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) * 8**-0.5
        later = torch.triu(torch.ones(TOKENS, TOKENS), diagonal=1).bool()
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ self.value(x)


class ListOfHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Single() for _ in range(HEADS))
        self.wo = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wo(torch.cat([head(x) for head in self.heads], -1))


@style(Attention("bqk", parts=4))
class HeadsInList(ListOfHeads):
    """nn.ModuleList of single heads (Karpathy)"""


@style(Attention("bqk", parts=4), row="S9", inputs=lambda: (torch.randn(4, TOKENS, WIDTH),))
class HeadsInListNamed(ListOfHeads):
    """the same where the parent names num_heads, and the batch is as large"""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS


@style(row="S6")
class TalkingHeads(Block):
    """heads are mixed before and after the softmax (CaiT)"""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = (nn.Linear(HEADS, HEADS, bias=False) for _ in range(2))
        with torch.no_grad():
            self.before.weight *= 2

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.before(self.scores(q, k).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        w = self.after(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.tap("multiplied", w)


@style(row="S6")
class TalkingEinsum(Block):
    """the same by einsum with a parameter, before the softmax only (x-transformers)"""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(HEADS, HEADS))

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhij,hg->bgij", self.scores(q, k), self.mix).softmax(-1)


@style()
class TalkingConv(Block):
    """the same by a 1 x 1 convolution before the softmax"""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(HEADS, HEADS, 1, bias=False)

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return (self.mix(self.scores(q, k)) * 3).softmax(-1)


@style(row="S6")
class Reattention(Block):
    """weights mixed over heads after the softmax, then a norm (DeepViT)"""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(HEADS, HEADS))
        self.norm = nn.LayerNorm(HEADS)

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        w = torch.einsum("bhij,hg->bgij", self.scores(q, k).softmax(-1), self.mix)
        return self.tap("multiplied", self.norm(w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@style()
class GatedOutput(Block):
    """a sigmoid gate on what the heads give"""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def attend(self, x: Tensor) -> Tensor:
        return super().attend(x) * self.gate(x).sigmoid()


@style()
class GatedHeads(Block):
    """one gate a head and token"""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, HEADS)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.join(self.weigh(q, k) @ v * self.gate(x).sigmoid().mT[..., None])


@style(Attention(optional=True), Attention(), row="S4")
class DifferenceOfTwo(Block):
    """two softmaxes, one minus the other (Differential Transformer)"""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(WIDTH, 2 * WIDTH)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        q2, k2 = (self.split(y) * 2 for y in self.second(x).chunk(2, -1))
        w = self.weigh(q, k) - 0.4 * self.weigh(q2, k2)
        return self.join(self.tap("multiplied", w) @ v)


@style(Attention(), Attention(), row="S4")
class DifferenceOfProducts(DifferenceOfTwo):
    """the same, each with its own product (DiffLlama)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        q2, k2 = (self.split(y) * 2 for y in self.second(x).chunk(2, -1))
        return self.join(self.weigh(q, k) @ v - 0.4 * (self.weigh(q2, k2) @ v))


@style()
class HeadsUnbound(Block):
    """one linear layer for q, k, v; unflatten, movedim, unbind"""

    def __init__(self) -> None:
        super().__init__()
        self.qkv_of = nn.Linear(WIDTH, 3 * WIDTH)

    def attend(self, x: Tensor) -> Tensor:
        qkv = self.qkv_of(x).mul(2).unflatten(-1, (3, HEADS, 8))
        q, k, v = qkv.movedim(-3, 0).movedim(-2, 2).unbind(0)
        return self.join(self.weigh(q, k) @ v)


@style(Attention("bhqk", heads=8), project="wo")
class MoreHeadsThanNamed(Block):
    """eight heads of 4 where num_heads says 4"""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 4

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], 8, -1).transpose(1, 2)
