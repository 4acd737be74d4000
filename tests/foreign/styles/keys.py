"""Keys that differ from queries in number: caches, memories, strides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import HEADS, LAWS, TOKENS, WIDTH, Attention, Block, causal, options, sdpa, style, ways

KIND = Attention(kind="cross")


def memory() -> dict[str, Any]:
    return {name: nn.Parameter(torch.randn(HEADS, 3, 8)) for name in ("mk", "mv")}


def learned(self, x: Tensor) -> list[Tensor]:
    """Learned keys and values, for each item."""
    return [y.expand(len(x), -1, -1, -1) for y in (self.mk, self.mv)]


@ways("attend")
class Keys:
    """Fewer or more keys than tokens."""

    @options(row="S5", parts=lambda: {"down": nn.Conv1d(WIDTH, WIDTH, 3, 3)})
    def keys_strided(self, x):
        """keys and values downsampled by a strided convolution (PVT)"""
        return Block.attend(self, x, self.down(x.mT).mT)

    @options(row="S5")
    def keys_pooled(self, x):
        """keys and values pooled by averages (MViT)"""
        return Block.attend(self, x, F.avg_pool1d(x.mT, 2).mT)

    @options(row="S5")
    def keys_pooled_sdpa(self, x):
        """the same over SDPA"""
        return self.join(sdpa(*self.qkv(x, F.avg_pool1d(x.mT, 2).mT)))

    @options(row="S5", parts=lambda: {"shrink": nn.Parameter(torch.randn(TOKENS, 4) / 2)})
    def keys_projected(self, x):
        """keys and values projected along the tokens to four (Linformer)"""
        q, k, v = self.qkv(x)
        k, v = (torch.einsum("bhnd,nk->bhkd", y, self.shrink) for y in (k, v))
        return self.join(self.weigh(q, k) @ v)

    @options(laws=LAWS[:3], parts=memory)
    def memory_keys(self, x):
        """learned keys and values before those of the words (persistent memory)"""
        q, k, v = self.qkv(x)
        k, v = (torch.cat([y, z], 2) for y, z in zip(learned(self, x), (k, v), strict=True))
        return self.join(self.weigh(q, k) @ v)

    @options(row="S5", parts=memory)
    def memory_keys_after(self, x):
        """learned keys after those of the words"""
        q, k, v = self.qkv(x)
        k, v = (torch.cat([z, y], 2) for y, z in zip(learned(self, x), (k, v), strict=True))
        return self.join(self.weigh(q, k) @ v)


@ways("forward")
class Queries:
    """Fewer queries than tokens, or others."""

    @options(row="S5")
    def queries_strided(self, x):
        """more keys than queries: every second token asks (LeViT)"""
        return x[:, ::2] + self.wo(self.attend(x[:, ::2], x))

    @options(row="S5", laws=LAWS[:3])
    def query_is_last(self, x):
        """only the last token asks"""
        return x[:, -1:] + self.wo(self.attend(x[:, -1:], x))

    @options(
        Attention(site=False),
        row="S7",
        laws=LAWS[:3],
        parts=lambda: {"first": nn.Parameter(torch.randn(1, 1, WIDTH))},
    )
    def query_is_class(self, x):
        """the class token asks itself and all others (CaiT)"""
        cls = self.first.expand(len(x), -1, -1)
        return cls + self.wo(self.attend(cls, torch.cat([cls, x], 1)))

    @options(laws=LAWS[:3], parts=lambda: {"memory": nn.Parameter(torch.randn(3, WIDTH))})
    def memory_tokens(self, x):
        """learned tokens before the words, in queries and keys"""
        x = torch.cat([self.memory.expand(len(x), -1, -1), x], 1)
        return Block.forward(self, x)[:, 3:]

    @options(KIND, inputs=lambda: (torch.randn(2, 5, 32), torch.randn(2, 9, 32)))
    def cross(self, x, y):
        """cross-attention: two inputs"""
        return x + self.wo(self.attend(x, y))

    @options(KIND, inputs=lambda: (torch.randn(2, 9, 32), torch.randn(2, 5, 32)), row="S5")
    def cross_few_keys(self, x, y):
        """cross-attention on fewer keys than queries"""
        return x + self.wo(self.attend(x, y))

    @options(
        *(Attention(kind="cross", site=False) for i in range(3)),
        inputs=lambda: (torch.randn(2, 1, 32), torch.randn(2, 9, 32)),
        laws=LAWS[:3],
    )
    def cache_of_cross(self, state, x):
        """keys and values of the source are computed once, three single queries ask them"""
        k, v = (self.split(w(x)) for w in (self.wk, self.wv))
        out = []
        for _ in range(3):
            q = self.split(self.wq(state))
            state = state + self.wo(self.join(self.weigh(q, k) @ v))
            out.append(state)
        return torch.cat(out, 1)


def steps(module: Any, x: Tensor) -> Tensor:
    """A prefix of six, then three single tokens."""
    module.empty()
    out = [module(x[:, :6])] + [module(x[:, i : i + 1]) for i in range(6, TOKENS)]
    return torch.cat(out, 1)


class Cached(Block):
    """Causal, with what came before kept: ``remember`` is the style."""

    places = 0  # of a buffer

    def __init__(self) -> None:
        super().__init__()
        self.empty()

    def empty(self) -> None:
        self.past: Any = None
        if self.places:
            self.past = [torch.zeros(2, HEADS, self.places, 8) for _ in range(2)]
        self.filled = 0

    def combine(self, q, k, v):
        k, v, hidden = self.remember(k, v)
        return self.scores(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def later(before: int, new: int, size: int) -> Tensor:
    """Which of ``size`` keys each of ``new`` queries may not see."""
    return torch.arange(size) > torch.arange(before, before + new)[:, None]


STEPS = tuple(Attention(first=i) for i in (0, 6, 7, 8))


@style(*STEPS, run=steps)
class CacheGrowing(Cached):
    """keys and values are concatenated to those of earlier calls"""

    def remember(self, k, v):
        before = 0 if self.past is None else self.past[0].shape[2]
        if self.past is not None:
            k, v = (torch.cat(pair, 2) for pair in zip(self.past, (k, v), strict=True))
        self.past = (k, v)
        return k, v, later(before, k.shape[2] - before, k.shape[2])


@style(*STEPS, run=steps, row="S4")
class CacheStatic(Cached):
    """a buffer of fixed length is filled, later places are masked"""

    places = 12

    def remember(self, k, v):
        new = k.shape[2]
        place = torch.arange(self.filled, self.filled + new)
        k, v = (old.index_copy_(2, place, y) for old, y in zip(self.past, (k, v), strict=True))
        self.filled += new
        return k, v, later(self.filled - new, new, 12)


@style(*STEPS, run=steps, row="S4")  # a key is a place: no axis grows
class CacheRing(Cached):
    """a ring of seven places: the eighth token overwrites the first one, then the second one"""

    places = 7

    def remember(self, k, v):
        new = k.shape[2]
        place = torch.arange(self.filled, self.filled + new) % 7
        for old, y in zip(self.past, (k, v), strict=True):
            old[:, :, place] = y
        self.filled += new
        hidden = torch.arange(7) >= self.filled
        if new > 1:
            hidden = later(0, new, 7) | hidden
        return self.past[0].clone(), self.past[1].clone(), hidden


def segments(module: Any, x: Tensor) -> Tensor:
    module.empty()
    return torch.cat([module(x[:, :5]), module(x[:, 5:])], 1)


@style(Attention(), Attention(first=5), run=segments, row="S5")
class MemoryOfSegments(Cached):
    """Transformer-XL: hidden states of the last segment are keys of this one"""

    def attend(self, x):
        y = x if self.past is None else torch.cat([self.past, x], 1)
        self.past = x.detach()
        q, k, v = self.qkv(x, y)
        hidden = later(y.shape[1] - x.shape[1], x.shape[1], y.shape[1])
        return self.join(self.scores(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v)


@ways("combine")
class Chunks:
    """Queries in parts, to save memory."""

    @options(Attention("bhqk", parts=3, join="q"), row="S4")
    def chunked_queries(self, q, k, v):
        """queries in chunks of three"""
        return torch.cat([self.weigh(part, k) @ v for part in q.split(3, 2)], 2)

    @options(Attention("bhqk", parts=3, join="q"), row="S4")
    def chunked_queries_filled(self, q, k, v):
        """the same, filled into an empty tensor, causal"""
        out = torch.empty_like(q)
        mask = causal(torch.zeros(TOKENS, TOKENS))
        for start in range(0, TOKENS, 4):
            rows = slice(start, start + 4)
            out[:, :, rows] = (self.scores(q[:, :, rows], k) + mask[rows]).softmax(-1) @ v
        return out
