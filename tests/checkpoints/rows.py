"""One row of the table of checkpoints, and how its two figures are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer_viz.capture import probe
from transformer_viz.checkpoints.common.model import Model

#: The largest differences that float32 rounding excuses.
ATTENTION, LOGITS = 5e-6, 2e-5


@dataclass(frozen=True)
class Row:
    """The largest absolute differences between a layout and its witness, for one variant of files.

    ``attention`` is taken over every head of every block, ``logits`` over logits and states.
    """

    layout: str
    variant: str
    attention: float
    logits: float
    witness: str

    @property
    def passed(self) -> bool:
        """Whether both are within rounding; a figure that is not a number never is."""
        return self.attention <= ATTENTION and self.logits <= LOGITS


def worst(found: Tensor | np.ndarray, expected: Tensor | np.ndarray) -> float:
    """The largest absolute difference; NaN against NaN is none, NaN against a number infinite."""
    a, b = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert a.shape == b.shape, f"{a.shape} is held against {b.shape}"
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    return float(np.nan_to_num(np.abs(a - b)).max())


def compared(
    model: Model,
    inputs: Sequence[Tensor | None],
    attention: Sequence[Tensor],
    logits: Tensor,
) -> tuple[float, float]:
    """The worst difference of all attentions, in the order of their calls, and of the output.

    ``inputs`` go to ``model.calls.forward`` as they are; ``attention`` are ``[batch, head, query,
    key]`` each, ``logits`` the model's whole output.
    """
    with torch.inference_mode(), probe(model.module) as run:
        output = model.calls.forward(*inputs)
    assert len(run.attentions) == len(attention), "the witness has another number of attentions"
    pairs = zip(run.attentions, attention, strict=True)
    return max(worst(r.weights, expected) for r, expected in pairs), worst(output, logits)
