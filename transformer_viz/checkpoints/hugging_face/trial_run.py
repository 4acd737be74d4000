"""Trial run of a newly loaded model, which finds its properties by its behaviour.

Class names and configs do not reliably state if a stack looks ahead, or what the rows of an
attention are. A run on one small input does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...capture import AttentionRecord, CaptureRequest, probe
from ...core.interventions import Intervention
from ..common.model import Calls
from ..files.errors import CheckpointError
from .library import plainly

LENGTH = 6  # tokens of the input
ADVICE = "tv.probe(module) shows what can be seen of it, with inputs of your own."


@dataclass(frozen=True)
class Trial:
    """Result of a run on one small input.

    Attributes:
        causal: True if no row attends to a later column.
        layers: Number of self-attentions.
        numbers: Layer numbers in the paths of their modules (``layers.3.attn``), if there are any.
        rows: Length of the first self-attention.
        soft: True if every map comes from a softmax.
        sums: Largest distance of the sum of a row from 1.
        shape: Shape of the output.
    """

    causal: bool
    layers: int
    numbers: tuple[int, ...]
    rows: int
    soft: bool
    sums: float
    shape: tuple[int, ...]


def try_out(module: nn.Module, calls: Calls, source: Tensor, target: Tensor | None) -> Trial:
    """Run a model once on a small input, and check its attention.

    Raises:
        CheckpointError: The run fails, there is no attention, or it is spread over the batch.
    """
    request = CaptureRequest(weights=lambda site: site.layer == 0, norms=False, residuals=False)
    name = type(module).__name__
    try:
        with torch.no_grad(), probe(module, Intervention(), request) as capture:
            output = calls.forward(source, target)
    except Exception as error:  # a foreign forward pass may raise anything
        raise CheckpointError(
            f"{name} opens, but does not run on a plain input ({plainly(error)}). {ADVICE}"
        ) from error
    own = [record for record in capture.attentions if record.kind == "self"]
    if not capture.attentions:
        raise CheckpointError(
            f"{name} has no attention that could be shown: it mixes its tokens without a map of "
            f"queries and keys that is known here. {ADVICE}"
        )
    if any(record.statistics["entropy"].shape[0] != 1 for record in capture.attentions):
        raise CheckpointError(
            f"{name} attends in windows, each with a small map of its own, and not all tokens to "
            f"all; such maps have no common rows and columns to be shown on. {ADVICE}"
        )
    if _joins(own, source, target):
        raise CheckpointError(
            f"{name} joins or adds tokens between its layers, so that the rows and columns of its "
            f"maps are not the tokens of its input. {ADVICE}"
        )
    first = [record for record in own if record.weights is not None]
    return Trial(
        causal=bool(first) and all(_causal(record.weights) for record in first),
        layers=len(own),
        numbers=tuple(record.number for record in own if record.number is not None),
        rows=own[0].shape[0] if own else 0,
        soft=all(record.form == "softmax" for record in capture.attentions),
        sums=max(float(r.statistics["row_sum_error"].max()) for r in capture.attentions),
        shape=tuple(output.shape),
    )


def runs_apart(calls: Calls, source: Tensor, target: Tensor) -> bool:
    """Return True if encoder and decoder, run separately, give the output of the whole model.

    Mixtures of experts pass more than the states from the encoder to the decoder.
    """
    if calls.encode is None or calls.decode is None:
        return False
    try:
        with torch.no_grad():
            parts = calls.decode(target, calls.encode(source))
            whole = calls.forward(source, target)
    except Exception:  # a foreign forward pass may raise anything
        return False
    return torch.allclose(parts, whole, rtol=1e-3, atol=1e-4)


def _joins(own: Sequence[AttentionRecord], source: Tensor, target: Tensor | None) -> bool:
    """Return True if a stack's self-attentions differ in length, or from their text."""
    lengths: dict[str, set[int]] = {}
    for record in own:
        lengths.setdefault(record.stack, set()).update(record.shape)
    if source.is_floating_point():
        return any(len(found) > 1 for found in lengths.values())
    read = {source.shape[1] if target is None else target.shape[1]}
    return any(
        found != ({source.shape[1]} if stack == "encoder" else read)
        for stack, found in lengths.items()
    )


def _causal(weights: Tensor | None) -> bool:
    return weights is not None and not bool(weights.triu(1).any())
