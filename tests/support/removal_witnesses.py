"""The former home of W4, W5 and W7: they stand in `witness_models` and `repeater`."""

from __future__ import annotations

import torch
from torch import nn

from . import repeater, witness_models

HEADS, WIDTH = witness_models.HEADS, witness_models.WIDTH
random_gpt2, repeats = witness_models.random_gpt2, witness_models.second_halves
periodic = repeater.periodic


def importance(gain: float, copies: int = 1) -> nn.Module:
    return witness_models.importance(gain, copies).module


def bias_moved(model: nn.Module) -> None:
    with torch.no_grad():
        model.load_state_dict(witness_models.twin(model, "bias").module.state_dict())


def taught(steps: int = repeater.STEPS, seed: int = 0) -> repeater.Repeater:
    return repeater.taught(seed, steps=steps)[-1].model
