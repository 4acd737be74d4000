"""Replacements of a removed head's output: mean, zero, uniform attention or another sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .batches import Batch
from .gate import Place
from .passes import GeneralPasses

METHODS = ("mean", "zero", "resample", "uniform")
#: Description of each method, for cards and captions.
SAID = {
    "mean": "each removed head gives its mean over all rows of these sentences",
    "zero": "each removed head gives 0, so that its constant part goes too",
    "resample": "each removed head gives what it gave at the same place of another sentence",
    "uniform": "each removed head looks at all the keys it may see alike",
}
PERMUTATIONS = 4
BUCKET = 32  # sentences of similar length that are permuted
#: A head hardly varies if its output's distance from the replacement is below this share of the
#: output's length (both root mean squares over all rows). Then 99 % of its power stays.
HARDLY = 0.1
MEMORY = 2**31  # bytes of outputs stored for resampling


class StandIns(Protocol):
    """Interface of replacements: ``[stand-in, sentence, token, feature]`` per place.

    An axis has size 1 where all values are shared.
    """

    count: int

    def of(self, batch: Batch) -> list[Tensor]:
        """Return the replacements for the sentences of a batch."""


class Constant:
    """Replacement that is the same for all sentences and rows: the mean, or zero.

    ``spread`` holds, per place and head, the output's distance from its mean as a share of its
    length; None if not measured. Both are root mean squares over all rows.
    """

    count = 1

    def __init__(self, values: Sequence[Tensor], spread: list[Tensor] | None = None):
        self.values = [value[None, None, None, :] for value in values]
        self.spread = spread

    def of(self, batch: Batch) -> list[Tensor]:
        return self.values


def zeros(places: Sequence[Place]) -> Constant:
    """Return zero replacements."""
    return Constant([torch.zeros(len(p.columns), device=p.columns.device) for p in places])


def means(passes: GeneralPasses, given: Sequence[Batch], pause: Callable[[], None]) -> Constant:
    """Return each head's mean output over all rows of all sentences, in one pass, in float64."""
    sums: list[Tensor] = [
        torch.zeros(len(p.columns), dtype=torch.float64, device=p.columns.device)
        for p in passes.places
    ]
    squares = [torch.zeros_like(one) for one in sums]
    rows = [0] * len(sums)
    for batch in given:
        pause()
        for number, x in enumerate(passes.contexts(batch)):
            real = real_rows(passes.places[number], batch, x)
            kept = x[real].double()
            sums[number] += kept.sum(0)
            squares[number] += kept.square().sum(0)
            rows[number] += len(kept)
    counts = [max(1, count) for count in rows]
    found = [total / count for total, count in zip(sums, counts, strict=True)]
    spread = []
    for place, mean, square, count in zip(passes.places, found, squares, counts, strict=True):
        power = square / count
        spread.append(_by_head(place, power - mean.square(), power))
    return Constant(found, spread)


def _by_head(place: Place, varying: Tensor, power: Tensor) -> Tensor:
    """Return the root of the ratio of two sums over a head's features, ``[head]``.

    The ratio is 1 where the power is 0.
    """
    both = torch.zeros(2, place.heads, dtype=torch.float64, device=power.device)
    both.index_add_(1, place.columns.to(power.device), torch.stack((varying, power)))
    return torch.where(both[1] > 0, both[0].clamp(min=0) / both[1], 1.0).sqrt()


def real_rows(place: Place, batch: Batch, x: Tensor) -> Tensor:
    """Return True for each row of a place that is not padding, bool ``[sentence, token]``."""
    real = batch.real(place.site.stack)
    return real if real.shape == x.shape[:2] else torch.ones_like(x[..., 0], dtype=torch.bool)


class Uniform:
    """Head outputs under uniform attention over all visible keys."""

    count = 1

    def __init__(self, passes: GeneralPasses):
        self.passes = passes

    def of(self, batch: Batch) -> list[Tensor]:
        return [x[None] for x in self.passes.uniform(batch)]


class Resampled:
    """Head outputs from another sentence of similar length, at the same relative row."""

    count = PERMUTATIONS

    def __init__(
        self,
        passes: GeneralPasses,
        given: Sequence[Batch],
        sentences: int,
        seed: int,
        pause: Callable[[], None],
    ):
        """Store every head's outputs, and draw donor sentences for each sentence.

        Raises:
            ValueError: There is only one sentence, or the outputs of all sentences exceed `MEMORY`.
        """
        if sentences < 2:
            raise ValueError(
                "resample takes what a head gave in another sentence, and one came; give two or "
                "more, or take method='mean'."
            )
        self.kept: dict[int, list[Tensor]] = {}
        self.size = 0
        for batch in given:
            pause()
            self._keep(passes, batch)
        lengths = [sum(len(x) for x in self.kept[n]) for n in range(sentences)]
        order = sorted(range(sentences), key=lambda n: lengths[n])
        generator = np.random.default_rng(seed)
        self.donors = [_deranged(order, generator) for _ in range(self.count)]
        self.spread = [self._spread(place, n) for n, place in enumerate(passes.places)]

    def _spread(self, place: Place, number: int) -> Tensor:
        """Return each head's distance from its replacement as a share of its length, ``[head]``.

        The difference of two independent outputs has twice the variance of one, hence the half.
        """
        varying = torch.zeros(len(place.columns), dtype=torch.float64, device=place.columns.device)
        power = torch.zeros_like(varying)
        for own, outputs in self.kept.items():
            here = outputs[number].double()
            for donors in self.donors:
                other = self.kept[donors[own]][number].double()
                lent = other[same_rows(len(here), len(other)).to(other.device)]
                varying += (here - lent).square().sum(0) / 2
                power += here.square().sum(0)
        return _by_head(place, varying, power)

    def _keep(self, passes: GeneralPasses, batch: Batch) -> None:
        outputs = passes.contexts(batch)
        for row, number in enumerate(batch.numbers):
            self.kept[number] = [
                x[row][real_rows(place, batch, x)[row]].clone()
                for place, x in zip(passes.places, outputs, strict=True)
            ]
            self.size += sum(x.numel() * x.element_size() for x in self.kept[number])
        if self.size > MEMORY:
            raise ValueError(
                f"resample keeps what every head gave, and {len(self.kept)} of these sentences "
                f"fill {MEMORY / 2**30:.0f} GB already; give fewer of them, or take method='mean'."
            )

    def of(self, batch: Batch) -> list[Tensor]:
        """Return ``[permutation, sentence, token, feature]`` per place."""
        return [self._at(place, batch) for place in range(len(self.kept[0]))]

    def _at(self, place: int, batch: Batch) -> Tensor:
        own = [len(self.kept[number][place]) for number in batch.numbers]
        longest, width = self._longest(place, batch), self.kept[0][place].shape[-1]
        first = self.kept[batch.numbers[0]][place]
        made = first.new_zeros(self.count, len(batch), longest, width)
        for k, donors in enumerate(self.donors):
            for row, number in enumerate(batch.numbers):
                other = self.kept[donors[number]][place]
                made[k, row, : own[row]] = other[same_rows(own[row], len(other))]
        return made

    def _longest(self, place: int, batch: Batch) -> int:
        return max(len(self.kept[number][place]) for number in batch.numbers)


def same_rows(count: int, others: int) -> Tensor:
    """Return, for each of ``count`` rows, the row of ``others`` at the same relative position."""
    if count < 2:
        return torch.zeros(count, dtype=torch.long, device="cpu")
    return (torch.arange(count, device="cpu") * (others - 1) / (count - 1)).round().long()


def _deranged(order: Sequence[int], generator: np.random.Generator) -> dict[int, int]:
    """Return, for each sentence, another of similar length: a random cycle through each bucket."""
    buckets = [list(order[i : i + BUCKET]) for i in range(0, len(order), BUCKET)]
    if len(buckets) > 1 and len(buckets[-1]) == 1:
        buckets[-2:] = [[*buckets[-2], *buckets[-1]]]
    found: dict[int, int] = {}
    for bucket in buckets:
        cycle = generator.permutation(bucket).tolist()
        found |= dict(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    return found
