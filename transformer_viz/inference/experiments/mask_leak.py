"""What leaks through a mask: one later word is exchanged, and the rows before it are watched."""

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
    """How far each row's prediction moves when one word of the decoder's input is another one.

    The distance between two predictions is the part of the probability that changes its word
    (total variation, 0 to 1). Under a causal mask rows before ``place`` cannot notice.

    Args:
        model: one with a decoder.
        source: what it reads; of a decoder-only model the target alone is read.
        target: the decoder's input ids, start token included.
        place: which of them is exchanged.
        causal: whether the causal mask is on.

    Returns:
        ``[row]`` float64.

    Raises:
        ValueError: the model has no decoder; a place that is not there.
    """
    if model.kind == "encoder-only":
        raise ValueError(f"{model.name} has no decoder, so it has no causal mask to lift.")
    if not 0 <= place < len(target):
        raise ValueError(f"The target has places 0 to {len(target) - 1}; got {place}.")
    edits = Intervention(() if causal else (Causal(on=False, stack="decoder"),))
    first = _predicted(model, source, list(target), edits)
    # a word that stands for nothing in the sentence: the one half the vocabulary away
    another = (target[place] + first.shape[1] // 2) % first.shape[1]
    other = [*target[:place], another, *target[place + 1 :]]
    second = _predicted(model, source, other, edits)
    return read_only(np.abs(first - second).sum(axis=1) / 2)


def _predicted(model: Model, source: Any, ids: list[int], edits: Intervention) -> np.ndarray:
    """Probabilities ``[row, vocabulary]`` float64."""
    words = (ids, None) if model.kind == "decoder-only" else (source, ids)
    found = trace(model, *words, intervention=edits, keep=("hidden",), check=False).logits
    if found is None:
        raise ValueError(f"{model.name} gives no words, so there is nothing to predict.")
    return torch.from_numpy(found.astype(np.float64)).softmax(-1).numpy()
