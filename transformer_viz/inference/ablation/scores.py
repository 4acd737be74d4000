"""Costs of a removal, computed from logits: effect on references, divergence, changed choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...core.numerics import MULTI_LABEL, REGRESSION
from ..outputs import scores_of
from .batches import Batch

STEEP = 16.0  # nats; beyond it, exponentials of differences lose precision
MEASURES = ("effect", "kl", "changed")
SUMS = (*MEASURES, "moved")  # summed over the rows of a sentence


@dataclass(frozen=True, eq=False)
class Costs:
    """Sums over the rows of each sentence, float64 ``[sentence, removal]``.

    Attributes:
        effect: Loss of the reference tokens: nats of the softmax, of the sigmoid for several
            labels, or the output itself for a regression.
        kl: KL(clean || removed) in nats, summed over labels. NaN for a regression.
        changed: Number of rows where the most probable token changed, or a label came or went. NaN
            for a regression.
        moved: Sum of absolute effects.
        by_row: Effects per asked row, ``[asked, removal]``.
    """

    effect: np.ndarray
    kl: np.ndarray
    changed: np.ndarray
    moved: np.ndarray
    by_row: np.ndarray

    @classmethod
    def empty(cls, sentences: int, removals: int, asked: int = 0) -> Costs:
        """Return costs with all sums 0."""
        sums = {name: np.zeros((sentences, removals)) for name in SUMS}
        return cls(**sums, by_row=np.zeros((asked, removals)))


def costs(logits: Iterable[Tensor], batch: Batch, task: str = "") -> Costs:
    """Return the costs of each copy after the first, which is the clean run.

    Args:
        logits: ``[asked, vocabulary]`` of each copy; compared in float32 or wider.
        batch: Batch whose questions are scored.
        task: Task of the model.
    """
    copies = iter(logits)
    if task in (MULTI_LABEL, REGRESSION):
        found = list(_of_outputs(copies, batch, task))
    else:
        found = list(_of_choices(copies, batch))
    parts = [torch.stack(one, -1).double() for one in zip(*found, strict=True)]
    each = parts[0].cpu().numpy()
    sums = (_by_sentence(part, batch) for part in (*parts, parts[0].abs()))
    return Costs(**dict(zip(SUMS, sums, strict=True)), by_row=each)


def _of_outputs(
    copies: Iterator[Tensor], batch: Batch, task: str
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield effect, divergence and change for independent outputs."""
    clean = next(copies).double()
    scores = scores_of(clean, task)
    for given in copies:
        other = given.double()
        effect = _at(scores - scores_of(other, task), batch.wanted)
        if task == REGRESSION:
            none = torch.full_like(effect, torch.nan)
            yield effect, none, none
            continue
        present = clean.sigmoid() * (scores - scores_of(other, task))
        absent = (-clean).sigmoid() * (scores_of(-clean, task) - scores_of(-other, task))
        changed = ((clean > 0) != (other > 0)).any(-1)
        yield effect, (present + absent).sum(-1).clamp(min=0), changed


def _of_choices(copies: Iterator[Tensor], batch: Batch) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield effect, divergence and change for a choice among several tokens or classes."""
    clean = _wide(next(copies))
    chance, first = clean.softmax(-1), clean.argmax(-1)
    for given in copies:
        other = _wide(given)
        gain = other - clean
        rise = _normaliser(gain, chance)
        effect = rise - _at(gain, batch.wanted)
        kl = (rise - _dot(chance, gain)).clamp(min=0)
        changed = other.amax(-1) > _at(other, first)
        yield effect, kl, changed


def _wide(logits: Tensor) -> Tensor:
    """Return logits in float32 or wider."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _normaliser(gain: Tensor, chance: Tensor) -> Tensor:
    """Return the rise of the log-sum-exp, ``[asked]``, when logits rise by ``gain``.

    ``chance`` ``[asked, vocabulary]`` are the probabilities before. The result is computed from the
    differences, so it is as exact as they are, and 0 where they are 0.
    """
    if float(gain.amax()) > STEEP or float(gain.amin()) < -STEEP:
        wide = torch.logsumexp(gain.double() + chance.double().log(), -1)
        return wide.to(gain.dtype)
    return torch.log1p(_dot(chance, gain.expm1()))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the row-wise dot product, ``[asked]``."""
    return torch.bmm(a[:, None, :], b[:, :, None])[:, 0, 0]


def _at(logits: Tensor, ids: Tensor) -> Tensor:
    return logits.gather(-1, ids[:, None])[:, 0]


def _by_sentence(values: Tensor, batch: Batch) -> np.ndarray:
    """Sum ``[asked, removal]`` over the rows of each sentence: ``[sentence, removal]``."""
    empty = torch.zeros(len(batch), values.shape[1], dtype=values.dtype, device=values.device)
    return empty.index_add(0, batch.owner, values).cpu().numpy()
