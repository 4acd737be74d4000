"""Learned queries: decoders of DETR, Perceivers, poolings."""

from __future__ import annotations

import torch
from torch import nn

from . import base
from .base import HEADS, LAWS, WIDTH, Attention, Block, Module, enter, options, sdpa, style, ways

CROSS = Attention(kind="cross")


def learned(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


class Ask(Block):
    """Five learned queries look at the tokens."""

    def parts(self):
        return {"asked": learned(5, WIDTH)}

    def forward(self, x):
        asked = self.asked.expand(len(x), -1, -1)
        return asked + self.wo(self.attend(asked, x))


enter("learned_queries", "learned queries, eager", Ask, CROSS, row="S7")


@ways("attend", Ask)
class Asked:
    @options(Attention("(bh)qk", kind="cross"), row="S7")
    def learned_queries_bmm(self, asked, x):
        """learned queries, bmm over (batch head)"""
        q, k, v = (y.flatten(0, 1) for y in self.qkv(asked, x))
        w = torch.bmm(q, k.mT).div(8**0.5).softmax(-1)
        return self.join(torch.bmm(w, v).unflatten(0, (-1, HEADS)))

    @options(CROSS)
    def learned_queries_sdpa(self, asked, x):
        """learned queries over SDPA"""
        return self.join(sdpa(*self.qkv(asked, x)))

    @options(CROSS, row="S7")
    def learned_queries_one_row(self, asked, x):
        """one set of queries, never expanded: [1, head, query, width]"""
        return Block.attend(self, asked[:1], x)

    @options(Attention("bqk", kind="cross", heads=1), project=None, head=0, row="S7")
    def learned_queries_one_head(self, asked, x):
        """learned queries, one head, three dimensions"""
        return self.weigh(self.wq(asked), self.wk(x)) @ self.wv(x)


@style(
    *(Attention(kind=kind, layer=i) for i in range(2) for kind in ("self", "cross")),
    project=tuple(f"layers.{i}.{n}.wo" for i in range(2) for n in ("own", "other")),
    row="S7",
)
class Detr(Module):
    """two decoder layers on queries that begin as zeros plus learned places"""

    def parts(self):
        places = learned(5, WIDTH)
        layers = [nn.ModuleDict({"own": Block(), "other": Block()}) for _ in range(2)]
        return {"places": places, "layers": nn.ModuleList(layers)}

    def forward(self, x):
        places = self.places.expand(len(x), -1, -1)
        target = torch.zeros_like(places)
        for layer in self.layers:
            own, other = layer["own"], layer["other"]
            q, k, _ = own.qkv(target + places)
            v = own.split(own.wv(target))
            target = target + own.wo(own.join(own.weigh(q, k) @ v))
            target = target + other.wo(other.attend(target + places, x))
        return target


class Latents(Module):
    """Latents that look at the input, then at each other."""

    rounds = 1

    def parts(self):
        parts = {"latents": learned(5, WIDTH)}
        for name in ("cross", "own"):
            parts[name] = nn.ModuleList(Block() for _ in range(self.rounds))
        return parts

    def forward(self, x):
        z = self.latents.expand(len(x), -1, -1)
        for cross, own in zip(self.cross, self.own, strict=True):
            z = z + cross.wo(cross.attend(z, x))
            z = own(z)
        return z


enter(
    *("perceiver", "a Perceiver of one round", Latents, CROSS, Attention()),
    project=("cross.0.wo", "own.0.wo"),
    row="S7",
)
enter(
    *("perceiver_twice", "two rounds: the second cross-attention is cross too"),
    Latents.of(rounds=2),
    *(CROSS, Attention(), Attention(kind="cross", layer=1), Attention(layer=1)),
    project=("cross.0.wo", "own.0.wo", "cross.1.wo", "own.1.wo"),
    row="S12",
)


@style(CROSS, Attention(kind="cross", layer=None), project=("one.wo", "two.wo"), row="S7")
class InducedSets(Module):
    """induced set attention: learned points ask the set, the set asks the points"""

    def parts(self):
        return {"points": learned(1, 3, WIDTH), "one": Block(), "two": Block()}

    def forward(self, x):
        points = self.points.repeat(len(x), 1, 1)
        points = self.points + self.one.wo(self.one.attend(points, x))
        return x + self.two.wo(self.two.attend(x, points))


@ways("forward")
class Tables:
    @options(Attention(site=False), row="S7", parts=lambda: {"tokens": learned(2, 9, WIDTH)})
    def learned_everything(self, x):
        """a table of learned tokens attends to itself, the input is only added"""
        return x + Block.forward(self, self.tokens)

    @options(
        CROSS,
        laws=("temperature", "head_off"),
        row="S7",
        parts=lambda: {"slots": learned(3, WIDTH)},
    )
    def slot_attention(self, x):
        """slots compete for tokens: a softmax over the slots, then a mean over tokens"""
        q, k, v = self.qkv(self.slots.expand(len(x), -1, -1), x)
        w = self.scores(q, k).softmax(2) + 1e-8
        return self.wo(self.join(self.tap("multiplied", w / w.sum(-1, keepdim=True)) @ v))


@ways("forward", Module)
class Pooled:
    @options(
        *(Attention("(bh)qk", kind="cross"),),
        row="S7",
        grad=True,
        project="=pool.out_proj",
        laws=LAWS[:3],
        parts=lambda: {"query": learned(1, 1, WIDTH), "pool": base.library()},
    )
    def pooling_head(self, x):
        """nn.MultiheadAttention with a learned probe (SigLIP)"""
        return self.pool(self.query.repeat(len(x), 1, 1), x, x)[0][:, 0]
