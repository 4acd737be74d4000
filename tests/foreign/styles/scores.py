"""How scores come about: biases, positions, distances, gains, networks."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .base import HEADS, TOKENS, WIDTH, Attention, Block, Module, options, style, variants, ways


def values(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def distances() -> torch.Tensor:
    steps = torch.arange(TOKENS)
    return steps[:, None] - steps


def angles() -> torch.Tensor:
    return torch.arange(TOKENS)[:, None] * 10.0 ** -torch.arange(4)


def pairs(x):
    """Features two by two, as complex numbers."""
    return torch.view_as_complex(x.contiguous().unflatten(-1, (4, 2)))


variants("scores", {
    "soft_cap": ("tanh between product and softmax (Gemma 2)",
                 lambda self, q, k: 3 * torch.tanh(Block.scores(self, q, k) / 3)),
    "cosine_function": (
        "F.cosine_similarity with broadcasting",
        lambda self, q, k: F.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1) * 8),
    "distance_cdist": ("minus the distance of q and k", lambda self, q, k: -torch.cdist(q, k)),
    "complex_product": ("q and k are complex, the real part of their product counts",
                        lambda self, q, k: (pairs(q) @ pairs(k).conj().mT).real / 8**0.5),
})  # fmt: skip


@ways("scores")
class Scores:
    """Scores of q and k ``[batch, head, token, width]``."""

    @options(parts=lambda: {"sharp": nn.Parameter(torch.full((HEADS, 1, 1), math.log(8.0)))})
    def learned_temperature(self, q, k):
        """cosine of q and k, times a learned number a head (Swin V2)"""
        return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.sharp.exp()

    def distance_by_hand(self, q, k):
        """minus the squared distance: 2 q k - |q|^2 - |k|^2"""
        lengths = q.square().sum(-1, keepdim=True) + k.square().sum(-1)[:, :, None]
        return (2 * q @ k.mT - lengths) / 6

    @options(parts=lambda: {"bias": nn.Embedding(2 * TOKENS, HEADS)})
    def relative_bias(self, q, k):
        """a learned bias for each distance (T5)"""
        return Block.scores(self, q, k) + self.bias(distances() + TOKENS).permute(2, 0, 1)

    def alibi(self, q, k):
        """slopes times distance"""
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        return Block.scores(self, q, k) - slopes[:, None, None] * distances().abs()

    @options(parts=lambda: {"far": values(2 * TOKENS, 8)})
    def relative_keys(self, q, k):
        """q times a key for each distance, by einsum (Shaw)"""
        far = self.far[distances() + TOKENS]
        return Block.scores(self, q, k) + torch.einsum("bhqd,qkd->bhqk", q, far) / 4

    @options(
        parts=lambda: {name: values(HEADS, n, 8) for name, n in (("far", 9), ("u", 1), ("w", 1))}
    )
    def relative_shift(self, q, k):
        """Transformer-XL: two products, the second one shifted by a view"""
        content = (q + self.u) @ k.mT
        places = F.pad((q + self.w) @ self.far.mT, (1, 0))
        shape = places.shape
        places = places.view(*shape[:2], shape[3], shape[2])[:, :, 1:].reshape(content.shape)
        return (content + places) / 8**0.5

    @options(parts=lambda: {"places": values(HEADS, TOKENS, 8)})
    def scores_per_product_of_positions(self, q, k):
        """a second product, of positions alone, is added (TUPE)"""
        return Block.scores(self, q, k) + self.places @ self.places.mT / 8

    @options(parts=lambda: {name: values(HEADS, TOKENS, 8) for name in ("pq", "pk")})
    def scores_two_products(self, q, k):
        """content to place and place to content are added (DeBERTa)"""
        return (q @ k.mT + q @ self.pk.mT + (k @ self.pq.mT).mT) / (3 * 8) ** 0.5

    def rotary(self, q, k):
        """rotary angles by halves"""
        cos, sin = angles().cos().repeat(1, 2), angles().sin().repeat(1, 2)

        def turn(x):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        return Block.scores(self, turn(q), turn(k))

    def rotary_complex(self, q, k):
        """rotary angles by complex numbers (Llama)"""
        turns = torch.polar(torch.ones(TOKENS, 4), angles())

        def turn(x):
            return torch.view_as_real(pairs(x) * turns).flatten(-2)

        return Block.scores(self, turn(q), turn(k))

    @options(parts=lambda: {"between": nn.Parameter(torch.randn(HEADS, 8, 8) / 3)})
    def general(self, q, k):
        """Luong's general score: q W k"""
        return Block.scores(self, q @ self.between, k)

    @options(parts=lambda: {"between": nn.Parameter(torch.randn(HEADS, 8, 8) / 3)})
    def general_einsum(self, q, k):
        """the same as one einsum of three"""
        return torch.einsum("bhqi,hij,bhkj->bhqk", q, self.between, k) / 8**0.5

    @options(
        parts=lambda: {"net": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, TOKENS))}
    )
    def synthesizer_dense(self, q, k):
        """scores are a network of the query alone (Synthesizer, dense)"""
        return self.net(q) * 2

    @options(parts=lambda: {"filter": nn.Conv2d(HEADS, HEADS, 3, padding=1)})
    def scores_by_convolution(self, q, k):
        """scores pass through a convolution over queries and keys (EdgeFormer)"""
        s = Block.scores(self, q, k)
        return s + self.filter(s)


@ways("attend")
class Heads:
    """What the heads give, before the output projection."""

    @options(
        Attention("bqk", heads=1),
        project=None,
        head=0,
        parts=lambda: {"v": nn.Linear(WIDTH, 1, bias=False)},
    )
    def additive(self, x):
        """Bahdanau: v tanh(W q + U k), one head"""
        scores = self.v(torch.tanh(self.wq(x)[:, :, None] + self.wk(x)[:, None]))
        return scores.squeeze(-1).mul(4).softmax(-1) @ self.wv(x)

    @options(
        Attention(site=False), row="S7", parts=lambda: {"fixed": values(1, HEADS, TOKENS, TOKENS)}
    )
    def synthesizer_random(self, x):
        """scores are parameters (Synthesizer, random)"""
        return self.join(self.fixed.softmax(-1).expand(len(x), -1, -1, -1) @ self.split(self.wv(x)))


ROW = Attention("bk", heads=1, site=False)
ONE_ROW = {"project": None, "head": 0, "row": "section 3"}


@ways("forward")
class Rows:
    """Weights ``[batch, key]``: one query for each item."""

    @options(
        *(ROW, ROW, ROW),
        **ONE_ROW,
        parts=lambda: {"v": nn.Linear(WIDTH, 1, bias=False), "cell": nn.GRUCell(WIDTH, WIDTH)},
    )
    def additive_steps(self, x):
        """Bahdanau in a recurrent decoder: weights [batch, key] a step, bmm with unsqueeze"""
        state, out = x.mean(1), []
        for _ in range(3):
            scores = self.v(torch.tanh(self.wq(state)[:, None] + self.wk(x))).squeeze(2)
            w = F.softmax(scores * 4, dim=1)
            state = self.cell(torch.bmm(w.unsqueeze(1), x).squeeze(1), state)
            out.append(state)
        return torch.stack(out, 1)

    @options(ROW, **ONE_ROW, parts=lambda: {"place": nn.Linear(WIDTH, TOKENS)})
    def location_scores(self, x):
        """PyTorch's chatbot: scores are a linear layer of the state, no key is in them"""
        state = x[:, -1] * 3
        w = F.softmax(self.place(state), dim=1)
        return state + self.wo(torch.bmm(w.unsqueeze(1), x)[:, 0])

    @options(ROW, **ONE_ROW, parts=lambda: {"w": nn.Linear(WIDTH, 1)})
    def pooling_by_scores(self, x):
        """a sentence vector: (softmax(x w) * x).sum(1)"""
        w = self.w(x).squeeze(-1).mul(3).softmax(-1)
        return self.wo((w[..., None] * x).sum(1))


@style(Attention(), Attention(layer=1), project=("first.wo", "second.wo"))
class ResidualScores(Module):
    """the second layer adds the first one's scores (RealFormer)"""

    def parts(self):
        return {"first": Block(), "second": Block()}

    def forward(self, x):
        before = torch.zeros(())
        for layer in (self.first, self.second):
            q, k, v = layer.qkv(x)
            before = layer.scores(q, k) + before
            x = x + layer.wo(layer.join(before.softmax(-1) @ v))
        return x
