"""Attentions that a probe can miss or misnumber, by kind; the proof must be amber for each.

A model has two blocks: a plain attention that is seen, then the style. `SOUND` are controls that
mix tokens or move them about, are shown rightly, and must stay green.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS, WIDTH, WORDS = 4, 8, 40
MODEL = HEADS * WIDTH
TOKENS = 12
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
sdpa = F.scaled_dot_product_attention


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * WIDTH**-0.5


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores(q, k).softmax(-1) @ v


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    later = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
    return scores(q, k).masked_fill(later, -math.inf).softmax(-1) @ v


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    made = torch.exp(scores(q, k) - scores(q, k).amax(-1, keepdim=True))
    return (made / made.sum(-1, keepdim=True)) @ v


class Attention(nn.Module):
    """``attend(q, k, v)`` of ``[batch, head, token, width]``; ``around`` changes the tokens before
    and after."""

    def __init__(self, attend: Attend = plain, around: Callable | None = None):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(MODEL, MODEL) for _ in range(4))
        self.attend, self.around = attend, around
        self.soft = nn.Parameter(torch.randn(3, MODEL))

    def inner(self, x: Tensor) -> Tensor:
        q, k, v = (
            f(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        return self.o(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) if self.around is None else self.around(self, x)


class Block(nn.Module):
    def __init__(self, part: nn.Module):
        super().__init__()
        self.norm, self.part = nn.LayerNorm(MODEL), part

    def forward(self, x: Tensor) -> Tensor:
        return x + self.part(self.norm(x))


class Model(nn.Module):
    """Ids ``[batch, token]`` to logits; ``ahead`` and ``behind`` change the tokens of the stack."""

    def __init__(
        self, *parts: nn.Module, ahead: Callable | None = None, behind: Callable | None = None
    ):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, MODEL), nn.Embedding(64, MODEL)
        self.soft = nn.Parameter(torch.randn(4, MODEL))
        self.blocks = nn.ModuleList(map(Block, parts))
        self.head = nn.Linear(MODEL, WORDS)
        self.ahead, self.behind = ahead, behind

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        x = x if self.ahead is None else self.ahead(self, x)
        for block in self.blocks:
            x = block(x)
        x = x if self.behind is None else self.behind(self, x)
        return self.head(x)


def strong(model: nn.Module) -> nn.Module:
    """The model with weights that make attention depend on words."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                whole = any(word in name for word in ("words", "places", "soft"))
                size = 1.0 if whole else 1.4 / weight.shape[-1] ** 0.5
                weight.copy_(torch.randn(weight.shape, generator=draw) * size)
    return model.eval()


# 1. Beside a plain attention one that neither probe nor witness sees.


def blocks_of_two(q, k, v):
    top, total, out = torch.full((*q.shape[:3], 1), -math.inf), 0.0, torch.zeros_like(q)
    for at in range(0, k.shape[2], 2):
        z = scores(q, k[:, :, at : at + 2])
        new = torch.maximum(top, z.amax(-1, keepdim=True))
        e, fade = (z - new).exp(), (top - new).exp()
        total = total * fade + e.sum(-1, keepdim=True)
        out, top = out * fade + e @ v[:, :, at : at + 2], new
    return out / total


def base_of(power):
    def attend(q, k, v):
        e = power(scores(q, k) - 1)
        return (e / e.sum(-1, keepdim=True)) @ v

    return attend


def log_space(q, k, v):
    z = scores(q, k)
    z = z - z.logsumexp(-1, keepdim=True)
    return (z.sinh() + z.cosh()) @ v


def unnormalised(q, k, v):
    one = torch.cat((v, torch.ones_like(v[..., :1])), -1)
    out = scores(q, k).exp() @ one
    return out[..., :-1] / out[..., -1:]


def top_mean(q, k, v):
    best = scores(q, k).topk(2).indices
    rows = torch.arange(q.shape[1])[None, :, None, None]
    return v[torch.zeros_like(best), rows.expand_as(best), best].mean(-2)


def threaded(q, k, v):
    def one(row):
        with torch.no_grad():
            return scores(q[:, :, row : row + 1], k).softmax(-1) @ v

    with ThreadPoolExecutor(2) as pool:
        return torch.cat(list(pool.map(one, range(q.shape[2]))), 2)


def in_numpy(q, k, v):
    a, b, c = (x.detach().numpy() for x in (q, k, v))
    e = np.exp(np.einsum("bhqd,bhkd->bhqk", a, b) / WIDTH**0.5)
    return torch.from_numpy(np.einsum("bhqk,bhkd->bhqd", e / e.sum(-1, keepdims=True), c))


def in_lists(q, k, v):
    z = scores(q, k)[0].tolist()
    w = [[[math.exp(c) for c in row] for row in head] for head in z]
    return F.normalize(torch.tensor(w), p=1, dim=-1)[None] @ v


def edges(q, k, v):
    rows, columns = torch.ones(q.shape[2], k.shape[2]).nonzero().unbind(1)
    e = ((q[:, :, rows] * k[:, :, columns]).sum(-1) * WIDTH**-0.5).exp()
    at = rows.expand_as(e)
    total = torch.zeros(q.shape[:3]).scatter_add(2, at, e)
    w = (e / total.gather(2, at))[..., None] * v[:, :, columns]
    return torch.zeros_like(q).scatter_add(2, at[..., None].expand_as(w), w)


def aten(q, k, v):
    mask = torch.zeros(q.shape[2], k.shape[2], dtype=torch.bool)
    mask = mask.expand(*q.shape[:3], -1).contiguous()
    return torch.ops.aten._masked_softmax(scores(q, k), mask, 3, 2) @ v


def linear(q, k, v):
    a, b = F.elu(q) + 1, F.elu(k) + 1
    return a @ (b.mT @ v) / (a @ b.sum(2)[..., None])


def by_power(q, k, v):
    e = scores(q, k).square()
    return e / e.sum(-1, keepdim=True).clamp(min=1e-6) @ v


def ring(q, k, v):
    """Keys travel round in halves, each with its log-sum."""
    parts = []
    for one, other in zip(k.chunk(2, 2), v.chunk(2, 2), strict=True):
        z = scores(q, one)
        total = torch.exp2(z * math.log2(math.e)).sum(-1, keepdim=True).log()
        parts.append((total, torch.exp2((z - total) * math.log2(math.e)) @ other))
    whole = torch.logaddexp(parts[0][0], parts[1][0])
    return sum((total - whole).exp() * out for total, out in parts)


@torch.library.custom_op("blind_spots::attend", mutates_args=())
def custom(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * WIDTH**-0.5).softmax(-1) @ v


class Written(torch.autograd.Function):
    """Attention by an autograd function of its own."""

    @staticmethod
    def forward(ctx, q, k, v):
        e = torch.exp2(q @ k.mT * WIDTH**-0.5)
        return e / e.sum(-1, keepdim=True) @ v


def carried(one: int, other: int) -> Attend:
    """One value that one other row takes, and nothing else."""

    def attend(q, k, v):
        out = v.clone()
        out[:, :, other] = out[:, :, other] + v[:, :, one]
        return out

    return attend


UNSEEN: dict[str, Attend] = {
    "online softmax, blocks of two": blocks_of_two,
    "torch.pow(2, z)": base_of(lambda z: torch.pow(2, z)),
    "3 ** z": base_of(lambda z: 3.0**z),
    "expm1(z) + 1": base_of(lambda z: z.expm1() + 1),
    "special.exp2": base_of(torch.special.exp2),
    "sigmoid(z) / sigmoid(-z)": base_of(lambda z: z.sigmoid() / (-z).sigmoid()),
    "sinh + cosh of log weights": log_space,
    "normalised by a column of ones": unnormalised,
    "nearest key, take_along_dim": lambda q, k, v: torch.take_along_dim(
        v, torch.cdist(q, k).argmin(-1)[..., None], 2
    ),
    "mean of the two best keys": top_mean,
    "one hot of the best key": lambda q, k, v: (
        F.one_hot(scores(q, k).argmax(-1), k.shape[2]).to(v) @ v
    ),
    "a thread for each row": threaded,
    "custom op": lambda q, k, v: torch.ops.blind_spots.attend(q, k, v),
    "autograd function": lambda q, k, v: Written.apply(q, k, v),
    "numpy einsum": in_numpy,
    "Python lists and L1 normalise": in_lists,
    "scatter over edges": edges,
    "_masked_softmax": aten,
    "linear attention": linear,
    "squares, normalised": by_power,
    "ring of two halves": ring,
    "Fourier transform": lambda q, k, v: torch.fft.fft(torch.fft.fft(v, dim=2), dim=-1).real,
    "running mean": lambda q, k, v: v.cumsum(2) / torch.arange(1, v.shape[2] + 1)[:, None],
    "the last row takes the first value": carried(0, -1),
    "the first row takes the last value": carried(-1, 0),
}

# 2. Keys and values, or queries, in another order than the words.


def ordered(keys=None, rows=None, mask=False):
    """Attention whose keys and values, or queries, stand in an order of their own."""

    def attend(q, k, v):
        if keys is not None:
            p = keys(k.shape[2])
            k, v = k[:, :, p], v[:, :, p]
        if rows is None:
            return (causal if mask else plain)(q, k, v)
        p = rows(q.shape[2])
        return plain(q[:, :, p], k, v)[:, :, p.argsort()]

    return attend


def swapped(a, b):
    def order(t):
        p = torch.arange(t)
        p[a], p[b] = p[b].item(), p[a].item()
        return p

    return order


def own_first(q, k, v):
    t = q.shape[2]
    at = (torch.arange(t)[:, None] + torch.arange(t)) % t
    w = (q[:, :, :, None] * k[:, :, at]).sum(-1).mul(WIDTH**-0.5).softmax(-1)
    return (w[..., None] * v[:, :, at]).sum(-2)


def shuffled(t):
    return torch.randperm(t, generator=torch.Generator().manual_seed(5))


ORDERS = {
    "back": lambda t: torch.arange(t).flip(0),
    "rolled by 1": lambda t: torch.arange(t).roll(1),
    "rolled by -3": lambda t: torch.arange(t).roll(-3),
    "ends swapped": swapped(0, -1),
    "first two swapped": swapped(0, 1),
    "even tokens first": lambda t: torch.cat((torch.arange(0, t, 2), torch.arange(1, t, 2))),
    "strided by 3": lambda t: torch.arange(t).view(3, -1).T.reshape(-1),
    "strided by 2": lambda t: torch.arange(t).view(2, -1).T.reshape(-1),
    "shuffled": shuffled,
    "last two swapped": swapped(-1, -2),
}
KEYS: dict[str, Attend] = {f"keys {name}": ordered(keys=order) for name, order in ORDERS.items()}
KEYS |= {f"queries {name}": ordered(rows=order) for name, order in ORDERS.items()}
KEYS |= {
    "own token first": own_first,
    "fused, keys turned round": lambda q, k, v: sdpa(q, k.flip(2), v.flip(2)),
}

# 3. Rows and keys of a layer in another order; put back behind it.


def moved(order):
    def around(part, x):
        p = order(x.shape[1])
        return part.inner(x[:, p])[:, p.argsort()]

    return around


ROWS = {f"tokens {name}": moved(order) for name, order in ORDERS.items()}
ROWS["tokens turned round by flip"] = lambda part, x: part.inner(x.flip(1)).flip(1)
ROWS["two halves exchanged"] = lambda part, x: part.inner(x.roll(6, 1)).roll(-6, 1)

# 4. Causal stacks whose tokens are moved, padded or merged.


def ahead_of(rows):
    """Soft prompts in front of the tokens."""
    return lambda model, x: torch.cat((model.soft[:rows].expand(len(x), -1, -1), x), 1)


def merged(model, x):
    """Tokens 3 and 4 become one."""
    return torch.cat((x[:, :3], x[:, 3:5].mean(1, True), x[:, 5:]), 1)


CAUSAL = {
    "soft prompt of 1": (ahead_of(1), lambda m, x: x[:, 1:]),
    "soft prompt of 4": (ahead_of(4), lambda m, x: x[:, 4:]),
    "soft prompt, all rows kept": (ahead_of(2), None),
    "padded on the left": (
        lambda m, x: F.pad(x, (0, 0, 16 - x.shape[1], 0)),
        lambda m, x: x[:, 16 - TOKENS :],
    ),
    "pairs merged": (
        lambda m, x: x.unflatten(1, (-1, 2)).mean(2),
        lambda m, x: x.repeat_interleave(2, 1),
    ),
    "two tokens merged": (merged, lambda m, x: torch.cat((x[:, :4], x[:, 3:]), 1)),
    "every other token dropped": (lambda m, x: x[:, ::2], lambda m, x: x.repeat_interleave(2, 1)),
    "first token dropped": (lambda m, x: x[:, 1:], lambda m, x: F.pad(x, (0, 0, 1, 0))),
    "shifted right": (lambda m, x: F.pad(x, (0, 0, 1, 0))[:, :-1], None),
    "shifted left": (lambda m, x: F.pad(x, (0, 0, 0, 1))[:, 1:], None),
}
for name, order in ORDERS.items():
    CAUSAL[f"tokens {name}"] = (
        lambda m, x, o=order: x[:, o(x.shape[1])],
        lambda m, x, o=order: x[:, o(x.shape[1]).argsort()],
    )

# 5. Windows or groups of tokens in the batch's axis.


def windows(size, order=None):
    def around(part, x):
        b, t, c = x.shape
        x = x if order is None else x[:, order(t)]
        y = part.inner(x.reshape(-1, size, c)).reshape(b, t, c)
        return y if order is None else y[:, order(t).argsort()]

    return around


def padded_windows(size):
    def around(part, x):
        b, t, c = x.shape
        y = F.pad(x, (0, 0, 0, -t % size))
        return part.inner(y.reshape(-1, size, c)).reshape(b, -1, c)[:, :t]

    return around


def overlapping(part, x):
    y = x.unfold(1, 4, 2).mT.flatten(0, 1)  # five windows of four tokens
    y = part.inner(y).unflatten(0, (len(x), -1))[:, :, :2].flatten(1, 2)
    return torch.cat((y, x[:, y.shape[1] :]), 1)


def unfolded(part, x):
    b, t, c = x.shape
    y = F.unfold(x.mT[..., None], (3, 1), stride=(3, 1)).view(b, c, 3, -1)
    return part.inner(y.permute(0, 3, 2, 1).flatten(0, 1)).reshape(b, t, c)


def stacked(part, x):
    y = torch.stack(x.split(4, 1), 1)
    return part.inner(y.flatten(0, 1)).unflatten(0, y.shape[:2]).flatten(1, 2)


def joined(part, x):
    return torch.cat([*part.inner(torch.cat(x.chunk(3, 1)))[:, None].unbind(0)], 1)


WINDOWS = {
    **{f"windows of {size}": windows(size) for size in (2, 3, 4, 6)},
    "windows rolled": windows(4, lambda t: torch.arange(t).roll(2)),
    "windows of strided tokens": windows(3, ORDERS["strided by 3"]),
    "grid of strided tokens": windows(4, lambda t: torch.arange(t).view(4, -1).T.reshape(-1)),
    "windows, padded": padded_windows(5),
    "windows, overlapping": overlapping,
    "windows by unfold": unfolded,
    "windows by stack": stacked,
    "windows joined in the batch": joined,
    "windows of shuffled tokens": windows(4, shuffled),
}

# Controls: what mixes or moves tokens and is shown rightly.


class Around(nn.Module):
    """A layer that mixes tokens, ``inner``, and how it is called."""

    def __init__(self, inner: nn.Module, run: Callable):
        super().__init__()
        self.inner, self.run = inner, run

    def forward(self, x):
        return self.run(self.inner, x)


def recurrent():
    return Around(nn.GRU(MODEL, MODEL, batch_first=True), lambda inner, x: inner(x)[0])


def convolution(crop: bool):
    """``crop``: causal by padding on both sides and cutting off the end."""
    inner = nn.Conv1d(MODEL, MODEL, 3, padding=2 if crop else 1)
    return Around(inner, lambda inner, x: inner(x.mT)[..., : x.shape[1]].mT)


def pooled():
    return Around(nn.AvgPool1d(3, 1, 1), lambda inner, x: inner(x.mT).mT - x)


class Experts(nn.Module):
    """Each token goes to its best expert, and back to its place."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(MODEL, 3)
        self.experts = nn.ModuleList(nn.Linear(MODEL, MODEL) for _ in range(3))

    def forward(self, x):
        flat = x.flatten(0, 1)
        best, out = self.gate(flat).argmax(-1), torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            (mine,) = torch.where(best == number)
            out[mine] = expert(flat[mine])
        return out.view_as(x)


SOUND: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: Model(Attention(), Attention()),
    "causal": lambda: Model(Attention(causal), Attention(causal)),
    "fused": lambda: Model(Attention(), Attention(sdpa)),
    "by hand, bfloat16": lambda: Model(Attention(by_hand), Attention(by_hand)).bfloat16(),
    "recurrent": lambda: Model(Attention(), recurrent(), Attention()),
    "convolution": lambda: Model(convolution(False), Attention(), convolution(False), Attention()),
    "causal convolution, cropped": lambda: Model(convolution(True), Attention(causal)),
    "pooling": lambda: Model(Attention(), pooled(), Attention()),
    "experts": lambda: Model(Attention(), Experts(), Attention(), Experts(), Attention()),
    "order undone": lambda: Model(
        Attention(),
        Attention(around=lambda p, x: p.inner(x[:, shuffled(12)][:, shuffled(12).argsort()])),
    ),
    "registers behind": lambda: Model(
        Attention(), Attention(),
        ahead=lambda m, x: torch.cat((x, m.soft.expand(len(x), -1, -1)), 1),
        behind=lambda m, x: x[:, :-4],
    ),
}  # fmt: skip


class Shifted(Attention):
    """A causal convolution gives each place the token before it, and nothing else."""

    def __init__(self, attend: Attend = plain):
        super().__init__(attend)
        self.shift = nn.Conv1d(MODEL, MODEL, 3, padding=2, groups=MODEL, bias=False)
        del self.shift.weight  # parameters are drawn at random
        self.shift.register_buffer("weight", torch.tensor([0.0, 1, 0]).expand(MODEL, 1, 3).clone())

    def forward(self, x):
        return self.inner(self.shift(x.mT)[..., : x.shape[1]].mT)


SHIFTED: dict[str, Callable[[], nn.Module]] = {
    "shifted by a convolution": lambda: Model(Shifted(), Attention()),
    "shifted by a convolution, causal": lambda: Model(Attention(causal), Shifted(causal)),
}


class Beside(nn.Module):
    """Several layers that read the same tokens; their outputs are added."""

    def __init__(self, *parts: nn.Module):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        return sum(part(x) for part in self.parts)


BESIDE: dict[str, Callable[[], nn.Module]] = {
    "two branches": lambda: Model(Beside(Attention(), Attention())),
    "two branches, causal": lambda: Model(
        Attention(causal), Beside(Attention(causal), Attention(causal))
    ),
    "two towers": lambda: Model(
        Beside(Block(Attention(sdpa)), nn.Sequential(Block(Attention(sdpa)), Block(Attention())))
    ),
}


class Faint(nn.Module):
    """A part whose output is scaled to 1e-6, as LayerScale begins."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part, self.scale = part, nn.Parameter(torch.full((MODEL,), 1e-6))

    def forward(self, x):
        return self.scale * self.part(x)


def models() -> dict[tuple[str, str], Callable[[], nn.Module]]:
    """All models that must be amber, by kind and style."""
    made: dict[tuple[str, str], Callable[[], nn.Module]] = {}
    for name, attend in UNSEEN.items():
        made["unseen", name] = lambda a=attend: Model(Attention(), Attention(a))
        if name in ("numpy einsum", "running mean", "online softmax, blocks of two"):
            made["unseen", f"{name}, beside causal"] = lambda a=attend: Model(
                Attention(causal), Attention(a)
            )
    made["unseen", "numpy einsum, scaled down"] = lambda: Model(
        Attention(), Faint(Attention(UNSEEN["numpy einsum"]))
    )
    made |= {("unseen", name): make for name, make in BESIDE.items()}
    made |= {("rows", name): make for name, make in SHIFTED.items()}
    for name, attend in KEYS.items():
        made["keys", name] = lambda a=attend: Model(Attention(a), Attention())
        if name.endswith("d by 1"):
            made["keys", f"{name}, layer 1"] = lambda a=attend: Model(Attention(), Attention(a))
    made["keys", "turned round, by hand, bfloat16"] = lambda: Model(
        Attention(lambda q, k, v: by_hand(q, k.flip(2), v.flip(2))), Attention()
    ).bfloat16()
    made["rows", "turned round, by hand, bfloat16"] = lambda: Model(
        Attention(), Attention(by_hand, around=lambda p, x: p.inner(x.flip(1)).flip(1))
    ).bfloat16()
    for name, around in ROWS.items():
        made["rows", name] = lambda a=around: Model(Attention(), Attention(around=a))
    for name, (ahead, behind) in CAUSAL.items():
        made["causal", name] = lambda a=ahead, b=behind: Model(
            Attention(causal), Attention(causal), ahead=a, behind=b
        )
    for name, around in WINDOWS.items():
        made["windows", name] = lambda a=around: Model(Attention(around=a), Attention(around=a))
    made["windows", "beside a global layer"] = lambda: Model(
        Attention(), Attention(around=windows(4))
    )
    return made
