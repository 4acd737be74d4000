"""Leak test of the causal mask: replace a later token and compare the rows before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...checkpoints.common.model import Model
from ...core.interventions import Causal, Intervention
from ...core.trace_parts import read_only
from ..tracing import trace


def leak(model: Model, source: Any, target: Sequence[int], place: int, causal: bool) -> np.ndarray:
    """Return the change of each row's prediction when one decoder input token is replaced.

    The change is the total variation distance of two predictions (0 to 1). Under a causal mask,
    rows before ``place`` do not change.

    Args:
        model: Model with a decoder.
        source: Source of the model; a decoder-only model reads the target alone.
        target: Decoder input ids, start token included.
        place: Index of the replaced token.
        causal: True if the causal mask is on.

    Returns:
        ``[row]`` float64.

    Raises:
        ValueError: The model has no decoder, or ``place`` is out of range.
    """
    if model.kind == "encoder-only":
        raise ValueError(f"{model.name} has no decoder, so it has no causal mask to lift.")
    if not 0 <= place < len(target):
        raise ValueError(f"The target has places 0 to {len(target) - 1}; got {place}.")
    edits = Intervention(() if causal else (Causal(on=False, stack="decoder"),))
    first = _predicted(model, source, list(target), edits)
    # an unrelated token: the one half the vocabulary away
    another = (target[place] + first.shape[1] // 2) % first.shape[1]
    other = [*target[:place], another, *target[place + 1 :]]
    second = _predicted(model, source, other, edits)
    return read_only(np.abs(first - second).sum(axis=1) / 2)


def _predicted(model: Model, source: Any, ids: list[int], edits: Intervention) -> np.ndarray:
    """Return probabilities ``[row, vocabulary]`` float64."""
    words = (ids, None) if model.kind == "decoder-only" else (source, ids)
    found = trace(model, *words, intervention=edits, keep=("hidden",), check=False).logits
    if found is None:
        raise ValueError(f"{model.name} gives no words, so there is nothing to predict.")
    return torch.from_numpy(found.astype(np.float64)).softmax(-1).numpy()
