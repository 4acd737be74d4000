"""Heads: shared keys, loops, mixed heads, gates."""

from __future__ import annotations

import torch
from torch import nn

from .base import HEADS, TOKENS, WIDTH, Attention, Block, Module, enter, options, sdpa, style, ways


class FewKeys(Block):
    """Keys and values of fewer heads than queries have: k and v ``[batch, group, token, 8]``."""

    groups = 1

    def parts(self):
        shared = {name: nn.Linear(WIDTH, 8 * self.groups) for name in ("wk", "wv")}
        with torch.no_grad():
            shared["wk"].weight *= 3
        return shared

    def split(self, x):
        return x.view(*x.shape[:2], -1, 8).transpose(1, 2)


@ways("combine", FewKeys)
class OneKeyHead:
    @options(row="S6")
    def mqa_einsum(self, q, k, v):
        """one key head: einsum "bhid,bjd->bhij" """
        w = torch.einsum("bhid,bjd->bhij", q, k[:, 0]).div(8**0.5).softmax(-1)
        return torch.einsum("bhij,bjd->bhid", w, v[:, 0])

    def mqa_matmul(self, q, k, v):
        """one key head, matmul broadcasts it"""
        return self.weigh(q, k) @ v


@ways("attend", FewKeys)
class Folded:
    @options(Attention("b(qh)k"), row="S6")
    def mqa_folded(self, x):
        """one key head, heads folded into the queries: bmm of [b, q x h, d]"""
        _, k, v = self.qkv(x)
        q = self.wq(x).view(len(x), TOKENS * HEADS, 8)
        w = torch.bmm(q, k[:, 0].mT).div(8**0.5).softmax(-1)
        return torch.bmm(w, v[:, 0]).view(x.shape)


@ways("combine", FewKeys.of(groups=2))
class TwoKeyHeads:
    @options(Attention("bgrqk"), row="S6")
    def gqa_einsum(self, q, k, v):
        """two groups: einsum "bgrqd,bgkd->bgrqk" """
        q = q.unflatten(1, (2, 2))
        w = torch.einsum("bgrqd,bgkd->bgrqk", q, k).div(8**0.5).softmax(-1)
        return torch.einsum("bgrqk,bgkd->bgrqd", w, v).flatten(1, 2)

    @options(Attention("bgrqk"), row="S11")
    def gqa_five_axes(self, q, k, v):
        """two groups: matmul of five axes, keys broadcast"""
        w = (q.unflatten(1, (2, 2)) @ k[:, :, None].mT / 8**0.5).softmax(-1)
        return (w @ v[:, :, None]).flatten(1, 2)

    def gqa_repeat(self, q, k, v):
        """two groups: repeat_interleave"""
        return self.weigh(q, k.repeat_interleave(2, 1)) @ v.repeat_interleave(2, 1)

    def gqa_sdpa(self, q, k, v):
        """two groups: SDPA with enable_gqa"""
        return sdpa(q, k, v, enable_gqa=True)


@ways("attend")
class Loops:
    @options(Attention("bqk", parts=4), row="S4")
    def loop_over_heads(self, x):
        """a Python loop over the heads, torch.cat"""
        qkv = (w(x).chunk(HEADS, -1) for w in (self.wq, self.wk, self.wv))
        return torch.cat([self.weigh(q, k) @ v for q, k, v in zip(*qkv, strict=True)], -1)


class Single(nn.Module):
    """One head of a list, as in Karpathy's and Raschka's lessons."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, 8, bias=False) for _ in range(3))
        with torch.no_grad():
            self.query.weight *= 3
            self.key.weight *= 3

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * 8**-0.5
        later = torch.triu(torch.ones(TOKENS, TOKENS), diagonal=1).bool()
        return scores.masked_fill(later, -torch.inf).softmax(-1) @ self.value(x)


@style(Attention("bqk", parts=4))
class HeadsInList(Module):
    """nn.ModuleList of single heads (Karpathy)"""

    def parts(self):
        heads = nn.ModuleList(Single() for _ in range(HEADS))
        return {"heads": heads, "wo": nn.Linear(WIDTH, WIDTH)}

    def forward(self, x):
        return x + self.wo(torch.cat([head(x) for head in self.heads], -1))


enter(
    "heads_in_list_named",
    "the same where the parent names num_heads, and the batch is as large",
    HeadsInList.of(num_heads=HEADS),
    Attention("bqk", parts=4),
    row="S9",
    inputs=lambda: (torch.randn(4, TOKENS, WIDTH),),
)


def two_mixers():
    before, after = (nn.Linear(HEADS, HEADS, bias=False) for _ in range(2))
    with torch.no_grad():
        before.weight *= 2
    return {"before": before, "after": after}


def mixer():
    return {"mixer": nn.Parameter(torch.randn(HEADS, HEADS))}


@ways("soft")
class Mixed:
    """Scores or weights of all heads are mixed."""

    @options(row="S6", parts=two_mixers)
    def talking_heads(self, s):
        """heads are mixed before and after the softmax (CaiT)"""
        s = self.before(s.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        w = self.after(s.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.tap("multiplied", w)

    @options(row="S6", parts=mixer)
    def talking_einsum(self, s):
        """the same by einsum with a parameter, before the softmax only (x-transformers)"""
        return torch.einsum("bhij,hg->bgij", s, self.mixer).softmax(-1)

    @options(parts=lambda: {"filter": nn.Conv2d(HEADS, HEADS, 1, bias=False)})
    def talking_conv(self, s):
        """the same by a 1 x 1 convolution before the softmax"""
        return (self.filter(s) * 3).softmax(-1)

    @options(row="S6", parts=lambda: mixer() | {"norm": nn.LayerNorm(HEADS)})
    def reattention(self, s):
        """weights mixed over heads after the softmax, then a norm (DeepViT)"""
        w = torch.einsum("bhij,hg->bgij", s.softmax(-1), self.mixer)
        return self.tap("multiplied", self.norm(w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@ways("attend")
class GatesAndPairs:
    @options(parts=lambda: {"gate": nn.Linear(WIDTH, WIDTH)})
    def gated_output(self, x):
        """a sigmoid gate on what the heads give"""
        return Block.attend(self, x) * self.gate(x).sigmoid()

    @options(parts=lambda: {"gate": nn.Linear(WIDTH, HEADS)})
    def gated_heads(self, x):
        """one gate a head and token"""
        q, k, v = self.qkv(x)
        return self.join(self.weigh(q, k) @ v * self.gate(x).sigmoid().mT[..., None])

    @options(
        *(Attention(optional=True), Attention()),
        row="S4",
        parts=lambda: {"second": nn.Linear(WIDTH, 2 * WIDTH)},
    )
    def difference_of_two(self, x):
        """two softmaxes, one minus the other (Differential Transformer)"""
        q, k, v = self.qkv(x)
        q2, k2 = (self.split(y) * 2 for y in self.second(x).chunk(2, -1))
        w = self.weigh(q, k) - 0.4 * self.weigh(q2, k2)
        return self.join(self.tap("multiplied", w) @ v)

    @options(
        *(Attention(), Attention()),
        row="S4",
        parts=lambda: {"second": nn.Linear(WIDTH, 2 * WIDTH)},
    )
    def difference_of_products(self, x):
        """the same, each with its own product (DiffLlama)"""
        q, k, v = self.qkv(x)
        q2, k2 = (self.split(y) * 2 for y in self.second(x).chunk(2, -1))
        return self.join(self.weigh(q, k) @ v - 0.4 * (self.weigh(q2, k2) @ v))

    @options(parts=lambda: {"into": nn.Linear(WIDTH, 3 * WIDTH)})
    def heads_unbound(self, x):
        """one linear layer for q, k, v; unflatten, movedim, unbind"""
        qkv = self.into(x).mul(2).unflatten(-1, (3, HEADS, 8))
        q, k, v = qkv.movedim(-3, 0).movedim(-2, 2).unbind(0)
        return self.join(self.weigh(q, k) @ v)


enter(
    "more_heads_than_named",
    "eight heads of 4 where num_heads says 4",
    Block.of(num_heads=4, split=lambda self, x: x.view(*x.shape[:2], 8, -1).transpose(1, 2)),
    Attention("bhqk", heads=8),
)
