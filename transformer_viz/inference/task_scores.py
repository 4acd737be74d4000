"""The score of each output of a head, in the unit of its task; see `core.tasks`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core.tasks import MULTI_LABEL, REGRESSION


def scores_of(logits: Tensor, task: str) -> Tensor:
    """Return the scores of logits ``[..., class]`` in float64.

    Log-probabilities in nats: of the softmax, or of several labels the sigmoid of each. The
    outputs of a regression themselves.
    """
    wide = logits.double()
    if task == REGRESSION:
        return wide
    if task == MULTI_LABEL:
        return torch.nn.functional.logsigmoid(wide)
    return wide.log_softmax(-1)
