"""Batches of sentences of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .examples import Example

SENTENCES = 8  # sentences per batch; small, since each is copied many times
FIRST = 4  # sentences of the first batch, so that results appear early


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentences padded to rectangles.

    Attributes:
        numbers: Indices of the sentences among all sentences.
        source: Source ids ``[sentence, token]``, or the model's other input.
        target: Target ids ``[sentence, token]``.
        segments: Segment ids of the source tokens.
        source_lengths: Source tokens without padding, ``[sentence]``.
        target_lengths: Target tokens without padding, ``[sentence]``.
        owner: Sentence of each question, ``[asked]``.
        row: Output row of each question, ``[asked]``.
        wanted: Reference token of each question, ``[asked]``.
    """

    numbers: tuple[int, ...]
    source: Tensor
    target: Tensor | None
    segments: Tensor | None
    source_lengths: Tensor
    target_lengths: Tensor
    owner: Tensor
    row: Tensor
    wanted: Tensor

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def visible(self) -> Tensor:
        """True for each source token that is not padding, bool ``[sentence, token]``."""
        places = torch.arange(self.source.shape[1], device=self.source.device)
        return places < self.source_lengths[:, None]

    def real(self, stack: str) -> Tensor:
        """Return True for each row of a stack that is not padding, bool ``[sentence, token]``."""
        if stack == "encoder" or self.target is None:
            return self.visible
        places = torch.arange(self.target.shape[1], device=self.source.device)
        return places < self.target_lengths[:, None]


def batches(
    items: Sequence[Example], padded: bool, pad_id: int | None, device: str, seed: int
) -> Iterator[Batch]:
    """Yield all sentences in batches of similar length, in random order.

    Random order prevents short sentences from coming first. With ``padded``, shorter sentences are
    padded; else a batch holds one shape only.
    """
    order = sorted(range(len(items)), key=lambda n: (items[n].shape, n))
    groups: list[list[int]] = []
    for number in order:
        full = not groups or len(groups[-1]) >= SENTENCES
        if full or (not padded and items[groups[-1][0]].shape != items[number].shape):
            groups.append([])
        groups[-1].append(number)
    ordered = [groups[place] for place in np.random.default_rng(seed).permutation(len(groups))]
    few, rest = ordered[0][:FIRST], ordered[0][FIRST:]
    for numbers in filter(None, (few, rest, *ordered[1:])):
        yield gather([items[n] for n in numbers], numbers, pad_id, device)


def gather(
    items: Sequence[Example], numbers: Sequence[int], pad_id: int | None, device: str
) -> Batch:
    """Return one batch of these examples."""
    targets = [item.target for item in items if item.target is not None]
    segments = [item.segments for item in items if item.segments is not None]
    owner = [place for place, item in enumerate(items) for _ in item.rows]
    return Batch(
        tuple(numbers),
        _rectangle([item.source for item in items], pad_id).to(device),
        _rectangle(targets, pad_id).to(device) if targets else None,
        _rectangle(segments, 0).to(device) if segments else None,
        *(
            torch.tensor(values, device=device)
            for values in (
                [item.source.shape[0] for item in items],
                [0 if item.target is None else len(item.target) for item in items],
                owner,
                [row for item in items for row in item.rows],
                [token for item in items for token in item.wanted],
            )
        ),
    )


def _rectangle(rows: Sequence[Tensor], pad_id: int | None) -> Tensor:
    """Stack rows, the shorter ones padded on the right."""
    if len({row.shape for row in rows}) == 1:
        return torch.stack(list(rows))
    return torch.nn.utils.rnn.pad_sequence(list(rows), True, pad_id or 0)
