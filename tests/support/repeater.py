"""W7: a Transformer of attention alone that learns within seconds to go on with what it saw.

Elhage et al. 2021 and Olsson et al. 2022: two layers learn it by a head that looks at the token
before and heads that find what followed the last time; one layer cannot. Which heads they are
depends on the seed: tests ask what the model does, and what its best head does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY, POSITIONS, WIDTH, HEADS = 32, 40, 64, 4
PERIODS = (8, 16)  # what is repeated is so many tokens long
STEPS, BATCH, RATE = 900, 64, 3e-3
EVERY = 25  # steps between two snapshots


class Repeater(nn.Module):
    """Layers of attention with LayerNorm before them; ids ``[batch, token]`` to logits."""

    def __init__(self, layers: int = 2):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.layers = nn.ModuleList(_Attention() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.norm(x))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        scores = q @ k.transpose(-1, -2) / math.sqrt(k.shape[-1])
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Snapshot(NamedTuple):
    """The model after so many steps, and what it has learned: loss in nats, share right."""

    step: int
    model: Repeater
    loss: float
    accuracy: float


def periodic(count: int, generator: torch.Generator, period: int) -> Tensor:
    """Random tokens that are said twice and then half once more: ``[sentence, token]``."""
    r = torch.rand(count, VOCABULARY, generator=generator).argsort(1)[:, :period]
    return r.repeat(1, 3)[:, : 2 * period + period // 2]


def taught(
    seed: int = 0, layers: int = 2, steps: int = STEPS, every: int = EVERY
) -> list[Snapshot]:
    """A training of some ten seconds, as snapshots from step 0 to the last."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Repeater(layers)
        return list(_training(model, torch.Generator().manual_seed(seed), steps, every))


def _training(
    model: Repeater, generator: torch.Generator, steps: int, every: int
) -> Iterator[Snapshot]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    yield _snapshot(0, model)
    for step in range(steps):
        period = int(torch.randint(PERIODS[0], PERIODS[1] + 1, (1,), generator=generator))
        loss = _loss(model, periodic(BATCH, generator, period)[:, :POSITIONS], period)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 50) * min(1.0, 2 * (1 - step / steps))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % every == 0 or step + 1 == steps:
            yield _snapshot(step + 1, model)


def _loss(model: Repeater, ids: Tensor, period: int) -> Tensor:
    """Nats a token where the first period tells the token."""
    logits = model(ids[:, :-1])[:, period - 1 :]
    return F.cross_entropy(logits.flatten(0, 1), ids[:, period:].flatten())


@torch.inference_mode()
def _snapshot(step: int, model: Repeater) -> Snapshot:
    """A copy of the model, judged on sentences of all periods that it was not taught."""
    generator, losses, right = torch.Generator().manual_seed(-1 + 2**31), [], []
    for period in range(PERIODS[0], PERIODS[1] + 1):
        ids = periodic(32, generator, period)[:, :POSITIONS]
        losses.append(float(_loss(model, ids, period)))
        said = model(ids[:, :-1]).argmax(-1)
        right.append(float((said == ids[:, 1:])[:, period:].float().mean()))
    return Snapshot(
        step, deepcopy(model).eval(), sum(losses) / len(losses), sum(right) / len(right)
    )


def sentences(each: int = 4, seed: int = 7) -> list[list[int]]:
    """Texts of every period for `tv.metrics`: what is said twice, no more."""
    generator = torch.Generator().manual_seed(seed)
    return [
        row[: 2 * period].tolist()
        for period in range(PERIODS[0], PERIODS[1] + 1)
        for row in periodic(each, generator, period)
    ]


def continued(each: int = 6, seed: int = 5) -> list[tuple[list[int], list[int]]]:
    """For `tv.rank`: what is said once and begins again, and how it goes on for certain."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (row[: period + 1].tolist(), row[period + 1 :].tolist())
        for period in range(PERIODS[0], PERIODS[1] + 1, 2)
        for row in periodic(each, generator, period)
    ]
