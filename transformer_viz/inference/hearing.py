"""A sound, ready for a model: its numbers as a batch of one, and the frames that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.common.model import Model
from ..core.interventions import Intervention
from ..core.trace_parts import Tokens
from .token_ids import refuse_padding


@dataclass(frozen=True, eq=False)
class Heard:
    """What a model hears: ``features`` ``[1, sample]`` or ``[1, mel, time]``, the frames that its
    encoder makes of them, and how long the sound itself lasts."""

    features: Tensor
    tokens: Tokens
    seconds: float


def hear(model: Model, sound: Any, intervention: Intervention | None = None) -> Heard:
    """A sound as the model hears it; one that was heard before comes back as it is.

    Args:
        sound: the path or the bytes of a WAV file; floats ``[sample]`` at the model's rate, from
            -1 to 1; or such floats and their own rate, ``(samples, rate)``.

    Raises:
        ValueError: no sound that the model can hear, or an edit that appends padding.
    """
    refuse_padding(intervention, "a sound has none")
    if isinstance(sound, Heard):
        return sound
    if model.audio is None:
        raise ValueError(f"The model {model.name!r} takes {model.takes}, and no sounds.")
    samples = model.audio.samples(sound)
    features = torch.as_tensor(model.audio.features(samples), device=model.device)[None]
    return Heard(features, model.audio.tokens(len(samples)), len(samples) / model.audio.rate)
