"""Keys that differ from queries in number: caches, memories, strides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import HEADS, LAWS, TOKENS, WIDTH, Attention, Block, causal, style


@style(row="S5")
class KeysStrided(Block):
    """keys and values downsampled by a strided convolution (PVT)"""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv1d(WIDTH, WIDTH, 3, 3)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x, self.down(x.mT).mT)
        return self.join(self.weigh(q, k) @ v)


@style(row="S5")
class KeysPooled(Block):
    """keys and values pooled by averages (MViT)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x, F.avg_pool1d(x.mT, 2).mT)
        return self.join(self.weigh(q, k) @ v)


@style(row="S5")
class KeysPooledSdpa(Block):
    """the same over SDPA"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x, F.avg_pool1d(x.mT, 2).mT)))


@style(row="S5")
class KeysProjected(Block):
    """keys and values projected along the tokens to four (Linformer)"""

    def __init__(self) -> None:
        super().__init__()
        self.shrink = nn.Parameter(torch.randn(TOKENS, 4) / 2)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        k, v = (torch.einsum("bhnd,nk->bhkd", y, self.shrink) for y in (k, v))
        return self.join(self.weigh(q, k) @ v)


@style(row="S5")
class QueriesStrided(Block):
    """more keys than queries: every second token asks (LeViT)"""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x[:, ::2], x)
        return x[:, ::2] + self.wo(self.join(self.weigh(q, k) @ v))


@style(row="S5", laws=LAWS[:3])
class QueryIsLast(Block):
    """only the last token asks"""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x[:, -1:], x)
        return x[:, -1:] + self.wo(self.join(self.weigh(q, k) @ v))


@style(Attention(site=False), row="S7", laws=LAWS[:3])
class QueryIsClass(Block):
    """the class token asks itself and all others (CaiT)"""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        cls = self.first.expand(len(x), -1, -1)
        q, k, v = self.qkv(cls, torch.cat([cls, x], 1))
        return cls + self.wo(self.join(self.weigh(q, k) @ v))


@style(laws=LAWS[:3])
class MemoryTokens(Block):
    """learned tokens before the words, in queries and keys"""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.Parameter(torch.randn(3, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.memory.expand(len(x), -1, -1), x], 1)
        return super().forward(x)[:, 3:]


@style(laws=LAWS[:3])
class MemoryKeys(Block):
    """learned keys and values before those of the words (persistent memory)"""

    def __init__(self) -> None:
        super().__init__()
        self.mk, self.mv = (nn.Parameter(torch.randn(HEADS, 3, 8)) for _ in range(2))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        k = torch.cat([self.mk.expand(len(x), -1, -1, -1), k], 2)
        v = torch.cat([self.mv.expand(len(x), -1, -1, -1), v], 2)
        return self.join(self.weigh(q, k) @ v)


@style(row="S5")
class MemoryKeysAfter(MemoryKeys):
    """learned keys after those of the words"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        k = torch.cat([k, self.mk.expand(len(x), -1, -1, -1)], 2)
        v = torch.cat([v, self.mv.expand(len(x), -1, -1, -1)], 2)
        return self.join(self.weigh(q, k) @ v)


KIND = Attention(kind="cross")


@style(KIND, inputs=lambda: (torch.randn(2, 5, 32), torch.randn(2, 9, 32)))
class Cross(Block):
    """cross-attention: two inputs"""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        q, k, v = self.qkv(x, y)
        return x + self.wo(self.join(self.weigh(q, k) @ v))


@style(KIND, inputs=lambda: (torch.randn(2, 9, 32), torch.randn(2, 5, 32)), row="S5")
class CrossFewKeys(Cross):
    """cross-attention on fewer keys than queries"""


def steps(module: Any, x: Tensor) -> Tensor:
    """A prefix of six, then three single tokens."""
    module.empty()
    out = [module(x[:, :6])] + [module(x[:, i : i + 1]) for i in range(6, TOKENS)]
    return torch.cat(out, 1)


class Cached(Block):
    """Causal, with what came before kept: ``remember`` is the style."""

    def __init__(self) -> None:
        super().__init__()
        self.empty()

    def empty(self) -> None:
        self.past: Any = None

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        k, v, hidden = self.remember(k, v)
        return self.join(self.scores(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v)

    def remember(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError


def later(before: int, new: int, size: int) -> Tensor:
    """Which of ``size`` keys each of ``new`` queries may not see."""
    return torch.arange(size) > torch.arange(before, before + new)[:, None]


@style(*(Attention(first=i) for i in (0, 6, 7, 8)), run=steps)
class CacheGrowing(Cached):
    """keys and values are concatenated to those of earlier calls"""

    def remember(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before = 0 if self.past is None else self.past[0].shape[2]
        if self.past is not None:
            k, v = (torch.cat(pair, 2) for pair in zip(self.past, (k, v), strict=True))
        self.past = (k, v)
        return k, v, later(before, k.shape[2] - before, k.shape[2])


@style(*(Attention(first=i) for i in (0, 6, 7, 8)), run=steps, row="S4")
class CacheStatic(Cached):
    """a buffer of fixed length is filled, later places are masked"""

    def empty(self) -> None:
        self.past = [torch.zeros(2, HEADS, 12, 8) for _ in range(2)]
        self.filled = 0

    def remember(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        new = k.shape[2]
        place = torch.arange(self.filled, self.filled + new)
        k, v = (old.index_copy_(2, place, y) for old, y in zip(self.past, (k, v), strict=True))
        self.filled += new
        return k, v, later(self.filled - new, new, 12)


@style(
    *(Attention(first=i) for i in (0, 6, 7, 8)),  # a key is a place: no axis grows
    run=steps,
    row="S4",
)
class CacheRing(Cached):
    """a ring of seven places: the eighth token overwrites the first one, then the second one"""

    def empty(self) -> None:
        self.past = [torch.zeros(2, HEADS, 7, 8) for _ in range(2)]
        self.filled = 0

    def remember(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
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

    def attend(self, x: Tensor) -> Tensor:
        y = x if self.past is None else torch.cat([self.past, x], 1)
        self.past = x.detach()
        q, k, v = self.qkv(x, y)
        hidden = later(y.shape[1] - x.shape[1], x.shape[1], y.shape[1])
        return self.join(self.scores(q, k).masked_fill(hidden, -torch.inf).softmax(-1) @ v)


@style(
    *(Attention(kind="cross", site=False) for i in range(3)),
    inputs=lambda: (torch.randn(2, 1, 32), torch.randn(2, 9, 32)),
    laws=LAWS[:3],
)
class CacheOfCross(Block):
    """keys and values of the source are computed once, three single queries ask them"""

    def forward(self, state: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]
        k, v = (self.split(w(x)) for w in (self.wk, self.wv))
        out = []
        for _ in range(3):
            q = self.split(self.wq(state))
            state = state + self.wo(self.join(self.weigh(q, k) @ v))
            out.append(state)
        return torch.cat(out, 1)


@style(Attention("bhqk", parts=3, join="q"), row="S4")
class ChunkedQueries(Block):
    """queries in chunks of three, to save memory"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.join(torch.cat([self.weigh(part, k) @ v for part in q.split(3, 2)], 2))


@style(Attention("bhqk", parts=3, join="q"), row="S4")
class ChunkedQueriesFilled(Block):
    """the same, filled into an empty tensor, causal"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        out = torch.empty_like(q)
        mask = causal(torch.zeros(TOKENS, TOKENS))
        for start in range(0, TOKENS, 4):
            rows = slice(start, start + 4)
            out[:, :, rows] = (self.scores(q[:, :, rows], k) + mask[rows]).softmax(-1) @ v
        return self.join(out)
