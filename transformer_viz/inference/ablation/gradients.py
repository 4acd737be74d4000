"""Head importance from gradients: a first-order estimate, to be checked by removal.

Gradients give no ranking: in a saturated model, the most important head may have gradient 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..outputs import scores_of
from .batches import Batch
from .bench import Bench
from .gate import Place, gate_projections
from .passes import GeneralPasses, asked, whole_output

STEPS = 16  # midpoints of the integral over gates


def gradient_importance(bench: Bench) -> np.ndarray:
    """Return ``mean over sentences of abs(z_h . dL/dz_h)`` for each head, float64 ``[head]``, >= 0.

    L is the loss of a sentence in nats, summed over its asked tokens (for a regression its negative
    output). The absolute value is taken per sentence, before any mean, so that signs do not cancel.
    Michel et al. 2019, section 4.1 (there divided by the layer's norm; here not).
    """
    total, sentences = np.zeros(len(bench.heads)), 0
    for batch in bench.batches:
        total += np.abs(_slopes(bench, batch, 1.0)[0]).sum(0)
        sentences += len(batch)
    return total / sentences


def integrated_gates(bench: Bench, steps: int = STEPS) -> tuple[np.ndarray, float]:
    """Return the integral of dL/dgate for each head, and its completeness error.

    All gates go from 0 to 1 together. The integral is ``[head]``, in nats per sentence; the error
    is its sum minus (L(all on) - L(all off)). The result depends on the path of the gates, which
    arbitrarily divides the joint effect of two heads. Sundararajan et al. 2017, applied to gates;
    midpoint rule.
    """
    total, sentences, ends = np.zeros(len(bench.heads)), 0, 0.0
    for batch in bench.batches:
        for step in range(steps):
            total += _slopes(bench, batch, (step + 0.5) / steps)[0].sum(0) / steps
        ends += float((_slopes(bench, batch, 1.0)[1] - _slopes(bench, batch, 0.0)[1]).sum())
        sentences += len(batch)
    return total / sentences, float(total.sum() - ends) / sentences


def _slopes(bench: Bench, batch: Batch, value: float) -> tuple[np.ndarray, np.ndarray]:
    """Return dL/dgate ``[sentence, head]`` with all gates at a value, and losses ``[sentence]``."""
    if not isinstance(bench.passes, GeneralPasses) or not bench.places:
        raise ValueError(
            "Gradients of heads need every head's output before its projection, and this model's "
            "were not all found; rank it by removal, method='zero'."
        )
    # tensors made in inference mode cannot take part in autograd; their clones can
    parts: dict[str, Any] = {
        n: x.clone() if isinstance(x, Tensor) else x for n, x in vars(batch).items()
    }
    batch = Batch(**parts)
    gates = [
        torch.full((len(batch), place.heads), value, requires_grad=True, device="cpu")
        for place in bench.places
    ]
    with (
        torch.enable_grad(),
        gate_projections(bench.places, len(batch), _gating(bench.places, gates)),
    ):
        output = whole_output(bench.model, batch, 1)
        scores = scores_of(next(asked(output, batch, 1)), bench.model.task)
        costs = -scores.gather(-1, batch.wanted[:, None])[:, 0]
        losses = torch.zeros(len(batch), dtype=torch.float64, device=costs.device)
        losses = losses.index_add(0, batch.owner, costs)
        found = torch.autograd.grad(losses.sum(), gates)
    slopes = torch.cat([slope.double() for slope in found], 1)
    return slopes.cpu().numpy(), losses.detach().cpu().numpy()


def _gating(places: list[Place], gates: list[Tensor]) -> Callable[[int, Tensor], Tensor]:
    def act(number: int, x: Tensor) -> Tensor:
        columns = places[number].columns.cpu().clone()
        return x * gates[number].to(x)[:, None, columns]

    return act
