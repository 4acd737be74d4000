"""Softmaxes that are no attention over tokens, and attention without any map."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import TOKENS, WIDTH, Attention, Block, Other, ids, style

LAWS = ("temperature", "head_off")


@style(Other("router"), laws=LAWS)
class Router(nn.Module):
    """a mixture of experts: softmax over experts times what they give"""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        w = self.route(x).softmax(-1)
        out = torch.stack([expert(x) for expert in self.experts], -2)
        return x + (w[..., None] * out).sum(-2)


@style(Other("router"), laws=LAWS)
class RouterMatmul(Router):
    """the same, weights @ experts"""

    def forward(self, x: Tensor) -> Tensor:
        w = self.route(x).softmax(-1)
        out = torch.stack([expert(x) for expert in self.experts], -2)
        return x + (w[..., None, :] @ out)[..., 0, :]


@style(Attention("bhqk"), Other("router"))
class AttentionAndRouter(Block):
    """an attention, then a mixture of the two best experts"""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        best = self.route(x).softmax(-1).topk(2, -1)
        out = torch.stack([expert(x) for expert in self.experts], -2)
        chosen = out.gather(-2, best.indices[..., None].expand(-1, -1, -1, WIDTH))
        return x + (best.values[..., None] * chosen).sum(-2)


@style(Other("channels"), laws=LAWS, row="S17")
class ChannelAttention(Block):
    """channels over channels (XCiT): [batch, head, channel, channel]"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (F.normalize(y.mT, dim=-1) for y in self.qkv(x))
        return self.join(((q @ k.mT * 4).softmax(-1) @ v).mT)


@style(Other("channels"), laws=LAWS)
class ChannelGate(Block):
    """squeeze and excitation with a softmax over channels"""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.wq(x.mean(1)).softmax(-1)[:, None]


@style(Other("branches"), laws=LAWS)
class BranchGate(Block):
    """selective kernels: a softmax over two branches"""

    def forward(self, x: Tensor) -> Tensor:
        both = torch.stack([self.wq(x), self.wk(x)], 1)
        w = torch.stack([self.wv(x.mean(1)), self.wo(x.mean(1))], 1).softmax(1)
        return (both * w[:, :, None]).sum(1)


@style(Attention("bhqk"), Other("output"))
class OutputSoftmax(Block):
    """an attention, then a softmax over classes"""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(super().forward(x).mean(1)).mul(3).softmax(-1)


@style(Attention("bhqk"), Other("loss"), inputs=ids)
class LossInside(Block):
    """an attention, then cross_entropy in forward"""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)

    def forward(self, given: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x = super().forward(self.table(given))
        logits = x @ self.table.weight.T
        return F.cross_entropy(logits.flatten(0, 1), given.flatten()), x


@style(Attention("bhqk"), Other("soft"), inputs=ids)
class SoftEmbedding(LossInside):
    """an attention, then softmax(logits) @ table: soft words"""

    def forward(self, given: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        x = Block.forward(self, self.table(given))
        return x, (x @ self.table.weight.T).softmax(-1) @ self.table.weight


@style(Other("codes"), laws=LAWS)
class SoftCodebook(Block):
    """softmax(-distance to codes) @ codes"""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(TOKENS, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + (-torch.cdist(x, self.codes)).softmax(-1) @ self.codes


@style(none=True, laws=LAWS)
class LinearAttention(Block):
    """linear attention: elu(q) + 1 times (elu(k) + 1) v"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return self.join(q @ (k.mT @ v) / (q @ k.sum(-2)[..., None]))


@style(Other("features"), Other("tokens"), laws=LAWS)
class EfficientAttention(Block):
    """softmax of q over features and of k over tokens, q (k^T v)"""

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.join(q.softmax(-1) @ (k.softmax(-2).mT @ v))


@style(
    Other("features"),
    Other("tokens"),
    laws=LAWS,
    row="S17",
    inputs=lambda: (torch.randn(2, 8, WIDTH),),
)
class EfficientSquare(EfficientAttention):
    """the same with as many tokens as a head is wide"""


@style(Other("channels"), laws=LAWS, row="S17", inputs=lambda: (torch.randn(2, 8, WIDTH),))
class ChannelSquare(ChannelAttention):
    """channels over channels with as many tokens as channels"""


@style(none=True, laws=LAWS)
class Mixer(nn.Module):
    """an MLP-Mixer: no softmax at all"""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.width = nn.Linear(TOKENS, TOKENS), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(x.mT).mT
        return x + self.width(F.gelu(x))


@style(Other("routing"), Other("routing"), laws=LAWS)
class CapsuleRouting(nn.Module):
    """two rounds of capsule routing"""

    def __init__(self) -> None:
        super().__init__()
        self.votes = nn.Linear(WIDTH, 3 * 8)

    def forward(self, x: Tensor) -> Tensor:
        votes = self.votes(x).view(*x.shape[:2], 3, 8)
        belief = torch.zeros(votes.shape[:3])
        for _ in range(2):
            w = belief.softmax(-1)
            out = torch.tanh((w[..., None] * votes).sum(1))
            belief = belief + (votes * out[:, None]).sum(-1)
        return out


@style(Other("pointer"), laws=LAWS)
class Pointer(Block):
    """a pointer network's last softmax: probabilities of tokens, no values"""

    def forward(self, x: Tensor) -> Tensor:
        return (self.wq(x[:, -1:]) @ self.wk(x).mT)[:, 0].softmax(-1)
