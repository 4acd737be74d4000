"""How scores come about: biases, positions, distances, gains, networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import HEADS, TOKENS, WIDTH, Attention, Block, style


@style()
class SoftCap(Block):
    """tanh between product and softmax (Gemma 2)"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return 3 * torch.tanh(super().scores(q, k) / 3)


@style()
class LearnedTemperature(Block):
    """cosine of q and k, times a learned number a head (Swin V2)"""

    def __init__(self) -> None:
        super().__init__()
        self.sharp = nn.Parameter(torch.full((HEADS, 1, 1), math.log(8.0)))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.sharp.exp()


@style()
class CosineFunction(Block):
    """F.cosine_similarity with broadcasting"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return F.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1) * 8


@style()
class DistanceCdist(Block):
    """minus the distance of q and k (torch.cdist)"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return -torch.cdist(q, k)


@style()
class DistanceByHand(Block):
    """minus the squared distance: 2 q k - |q|^2 - |k|^2"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        lengths = q.square().sum(-1, keepdim=True) + k.square().sum(-1)[:, :, None]
        return (2 * q @ k.mT - lengths) / 6


@style()
class RelativeBias(Block):
    """a learned bias for each distance (T5)"""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(2 * TOKENS, HEADS)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        steps = torch.arange(TOKENS)
        bias = self.bias(steps[:, None] - steps + TOKENS)
        return super().scores(q, k) + bias.permute(2, 0, 1)


@style()
class Alibi(Block):
    """slopes times distance"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        steps = torch.arange(TOKENS)
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        return super().scores(q, k) - slopes[:, None, None] * (steps[:, None] - steps).abs()


@style()
class RelativeKeys(Block):
    """q times a key for each distance, by einsum (Shaw)"""

    def __init__(self) -> None:
        super().__init__()
        self.far = nn.Parameter(torch.randn(2 * TOKENS, 8))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        steps = torch.arange(TOKENS)
        far = self.far[steps[:, None] - steps + TOKENS]
        return super().scores(q, k) + torch.einsum("bhqd,qkd->bhqk", q, far) / 4


@style()
class RelativeShift(Block):
    """Transformer-XL: two products, the second one shifted by a view"""

    def __init__(self) -> None:
        super().__init__()
        self.far = nn.Parameter(torch.randn(HEADS, TOKENS, 8))
        self.u, self.w = (nn.Parameter(torch.randn(HEADS, 1, 8)) for _ in range(2))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        content = (q + self.u) @ k.mT
        places = F.pad((q + self.w) @ self.far.mT, (1, 0))
        shape = places.shape
        places = places.view(*shape[:2], shape[3], shape[2])[:, :, 1:].reshape(content.shape)
        return (content + places) / 8**0.5


@style()
class ScoresPerProductOfPositions(Block):
    """a second product, of positions alone, is added (TUPE)"""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(HEADS, TOKENS, 8))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) + self.places @ self.places.mT / 8


@style()
class ScoresTwoProducts(Block):
    """content to place and place to content are added (DeBERTa)"""

    def __init__(self) -> None:
        super().__init__()
        self.pq, self.pk = (nn.Parameter(torch.randn(HEADS, TOKENS, 8)) for _ in range(2))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.mT + q @ self.pk.mT + (k @ self.pq.mT).mT) / (3 * 8) ** 0.5


@style()
class Rotary(Block):
    """rotary angles by halves"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        angles = torch.arange(TOKENS)[:, None] * 10.0 ** -torch.arange(4)
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

        def turn(x: Tensor) -> Tensor:
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        return super().scores(turn(q), turn(k))


@style()
class RotaryComplex(Block):
    """rotary angles by complex numbers (Llama)"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        angles = torch.arange(TOKENS)[:, None] * 10.0 ** -torch.arange(4)
        turns = torch.polar(torch.ones_like(angles), angles)

        def turn(x: Tensor) -> Tensor:
            pairs = torch.view_as_complex(x.contiguous().unflatten(-1, (4, 2)))
            return torch.view_as_real(pairs * turns).flatten(-2)

        return super().scores(turn(q), turn(k))


@style()
class ComplexProduct(Block):
    """q and k are complex, the real part of their product counts"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        a, b = (torch.view_as_complex(x.contiguous().unflatten(-1, (4, 2))) for x in (q, k))
        return (a @ b.conj().mT).real / 8**0.5


@style()
class General(Block):
    """Luong's general score: q W k"""

    def __init__(self) -> None:
        super().__init__()
        self.between = nn.Parameter(torch.randn(HEADS, 8, 8) / 3)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q @ self.between, k)


@style()
class GeneralEinsum(General):
    """the same as one einsum of three"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bhqi,hij,bhkj->bhqk", q, self.between, k) / 8**0.5


@style(Attention("bqk", heads=1), project=None, head=0)
class Additive(Block):
    """Bahdanau: v tanh(W q + U k), one head"""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Linear(WIDTH, 1, bias=False)

    def attend(self, x: Tensor) -> Tensor:
        scores = self.v(torch.tanh(self.wq(x)[:, :, None] + self.wk(x)[:, None]))
        return scores.squeeze(-1).mul(4).softmax(-1) @ self.wv(x)


@style(
    *(Attention("bk", heads=1, site=False) for _ in range(3)),
    project=None,
    head=0,
    row="section 3",
)
class AdditiveSteps(Block):
    """Bahdanau in a recurrent decoder: weights [batch, key] a step, bmm with unsqueeze"""

    def __init__(self) -> None:
        super().__init__()
        self.v = nn.Linear(WIDTH, 1, bias=False)
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        state, out = x.mean(1), []
        for _ in range(3):
            scores = self.v(torch.tanh(self.wq(state)[:, None] + self.wk(x))).squeeze(2)
            w = F.softmax(scores * 4, dim=1)
            state = self.cell(torch.bmm(w.unsqueeze(1), x).squeeze(1), state)
            out.append(state)
        return torch.stack(out, 1)


@style(Attention("bk", heads=1, site=False), project=None, head=0, row="section 3")
class LocationScores(Block):
    """PyTorch's chatbot: scores are a linear layer of the state, no key is in them"""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Linear(WIDTH, TOKENS)

    def forward(self, x: Tensor) -> Tensor:
        state = x[:, -1] * 3
        w = F.softmax(self.place(state), dim=1)
        return state + self.wo(torch.bmm(w.unsqueeze(1), x)[:, 0])


@style(Attention("bk", heads=1, site=False), project=None, head=0, row="section 3")
class PoolingByScores(Block):
    """a sentence vector: (softmax(x w) * x).sum(1)"""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        w = self.w(x).squeeze(-1).mul(3).softmax(-1)
        return self.wo((w[..., None] * x).sum(1))


@style(Attention(site=False), row="S7")
class SynthesizerRandom(Block):
    """scores are parameters (Synthesizer, random)"""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Parameter(torch.randn(1, HEADS, TOKENS, TOKENS))

    def attend(self, x: Tensor) -> Tensor:
        return self.join(self.fixed.softmax(-1).expand(len(x), -1, -1, -1) @ self.split(self.wv(x)))


@style()
class SynthesizerDense(Block):
    """scores are a network of the query alone (Synthesizer, dense)"""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, TOKENS))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return self.net(q) * 2


@style(Attention("bhqk", layer=0), Attention("bhqk", layer=1), project=("first.wo", "second.wo"))
class ResidualScores(nn.Module):
    """the second layer adds the first one's scores (RealFormer)"""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: Tensor) -> Tensor:
        before = torch.zeros(())
        for layer in (self.first, self.second):
            q, k, v = layer.qkv(x)
            before = layer.scores(q, k) + before
            x = x + layer.wo(layer.join(before.softmax(-1) @ v))
        return x


@style()
class ScoresByConvolution(Block):
    """scores pass through a convolution over queries and keys (EdgeFormer, evolving attention)"""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(HEADS, HEADS, 3, padding=1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        s = super().scores(q, k)
        return s + self.mix(s)
