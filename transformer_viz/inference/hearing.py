"""Preparation of a sound as model input: features as a batch of one, and their frames."""

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
    """Audio input of a model.

    Attributes:
        features: ``[1, sample]`` or ``[1, mel, time]``.
        tokens: Frames that the encoder makes of the features.
        seconds: Duration of the sound.
    """

    features: Tensor
    tokens: Tokens
    seconds: float


def hear(model: Model, sound: Any, intervention: Intervention | None = None) -> Heard:
    """Return a sound as model input; a `Heard` is returned unchanged.

    Args:
        model: Audio model.
        sound: Path or bytes of a WAV file; floats ``[sample]`` at the model's rate, from -1 to 1;
            or such floats with their own rate, ``(samples, rate)``.
        intervention: Edits of the run; they must not append padding.

    Raises:
        ValueError: The model cannot read the sound, or an edit appends padding.
    """
    refuse_padding(intervention, "a sound has none")
    if isinstance(sound, Heard):
        return sound
    if model.audio is None:
        raise ValueError(f"The model {model.name!r} takes {model.takes}, and no sounds.")
    samples = model.audio.samples(sound)
    features = torch.as_tensor(model.audio.features(samples), device=model.device)[None]
    return Heard(features, model.audio.tokens(len(samples)), len(samples) / model.audio.rate)
