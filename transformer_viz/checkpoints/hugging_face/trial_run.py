"""A trial run of a model that was just loaded: what it is, by what it does.

Neither class names nor words of a config say for certain whether a stack looks ahead, or what the
rows of an attention are. One small input does.
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
    """What one small input showed.

    ``causal``: no row looks at a later column; ``layers`` is the number of self-attentions,
    ``numbers`` those in the paths of their modules (``layers.3.attn``), as far as there is one;
    ``rows`` the length of the first one; ``soft``: every map comes out of a softmax; ``sums`` how
    far the sum of a row is from 1; ``shape`` that of the output.
    """

    causal: bool
    layers: int
    numbers: tuple[int, ...]
    rows: int
    soft: bool
    sums: float
    shape: tuple[int, ...]


def try_out(module: nn.Module, calls: Calls, source: Tensor, target: Tensor | None) -> Trial:
    """Run a model once on a small input, and look at its attention.

    Raises:
        CheckpointError: the run fails, there is no attention, or it is spread over the batch.
    """
    request = CaptureRequest(weights=lambda site: site.layer == 0, norms=False, residuals=False)
    name = type(module).__name__
    try:
        with torch.no_grad(), probe(module, Intervention(), request) as capture:
            output = calls.forward(source, target)
    except Exception as error:  # whatever a foreign forward pass may raise
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
    """Whether encoder and decoder, run one after the other, give what the whole model gives.

    Mixtures of experts hand more from the one to the other than their states.
    """
    if calls.encode is None or calls.decode is None:
        return False
    try:
        with torch.no_grad():
            parts = calls.decode(target, calls.encode(source))
            whole = calls.forward(source, target)
    except Exception:  # whatever a foreign forward pass may raise
        return False
    return torch.allclose(parts, whole, rtol=1e-3, atol=1e-4)


def _joins(own: Sequence[AttentionRecord], source: Tensor, target: Tensor | None) -> bool:
    """Whether a stack's self-attentions are of different lengths, or not of its text's length."""
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
