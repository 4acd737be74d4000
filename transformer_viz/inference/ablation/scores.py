"""What a removal costs, from logits: nats on the wanted tokens, divergence, other first choices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .batches import Batch

STEEP = 16.0  # nats; beyond, exponentials of differences lose what stands beside them
MEASURES = ("effect", "kl", "changed")


@dataclass(frozen=True, eq=False)
class Costs:
    """Sums over the rows of each sentence, float64 ``[sentence, removal]``.

    ``effect`` is how many nats more the wanted tokens cost; ``kl`` the divergence of the removed
    run's probabilities from the clean run's, KL(clean || removed), in nats; ``changed`` counts the
    rows where another token became the most probable one.
    """

    effect: np.ndarray
    kl: np.ndarray
    changed: np.ndarray

    @classmethod
    def empty(cls, sentences: int, removals: int) -> Costs:
        """Of nothing measured yet."""
        return cls(*(np.zeros((sentences, removals)) for _ in MEASURES))


def costs(logits: Iterable[Tensor], batch: Batch) -> Costs:
    """The costs of each copy after the first, which is the clean run.

    Args:
        logits: ``[asked, vocabulary]`` of each copy, in float32 or more once compared.
        batch: whose questions these are.
    """
    copies = iter(logits)
    clean = _wide(next(copies))
    chance, first = clean.softmax(-1), clean.argmax(-1)
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for given in copies:
        other = _wide(given)
        gain = other - clean
        rise = _normaliser(gain, chance)
        effect = rise - _at(gain, batch.wanted)
        kl = (rise - _dot(chance, gain)).clamp(min=0)
        changed = other.amax(-1) > _at(other, first)
        found.append((effect, kl, changed))
    parts = [torch.stack(one, -1).double() for one in zip(*found, strict=True)]
    return Costs(*(_by_sentence(part, batch) for part in parts))


def _wide(logits: Tensor) -> Tensor:
    """Statistics are reckoned in float32 at least."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _normaliser(gain: Tensor, chance: Tensor) -> Tensor:
    """How much the logarithm of the sum of exponentials rises, ``[asked]``, where logits rise by
    ``gain`` and had the probabilities ``chance`` ``[asked, vocabulary]``.

    From the differences themselves, so that it is as exact as they are, and 0 where they are.
    """
    if float(gain.amax()) > STEEP or float(gain.amin()) < -STEEP:
        wide = torch.logsumexp(gain.double() + chance.double().log(), -1)
        return wide.to(gain.dtype)
    return torch.log1p(_dot(chance, gain.expm1()))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Row times row, ``[asked]``."""
    return torch.bmm(a[:, None, :], b[:, :, None])[:, 0, 0]


def _at(logits: Tensor, ids: Tensor) -> Tensor:
    return logits.gather(-1, ids[:, None])[:, 0]


def _by_sentence(values: Tensor, batch: Batch) -> np.ndarray:
    """``[asked, removal]`` summed over the rows of each sentence: ``[sentence, removal]``."""
    empty = torch.zeros(len(batch), values.shape[1], dtype=values.dtype, device=values.device)
    return empty.index_add(0, batch.owner, values).cpu().numpy()
