"""Filter of the edits that still apply after a change of model."""

from __future__ import annotations

from ...core.interventions import (
    BlockEdges,
    BlockKeys,
    Edit,
    Intervention,
    MeanHead,
    Pad,
    ScalePositions,
    ShufflePositions,
    Swap,
)
from ...core.trace import Trace
from ..engine.model_kind import Kind
from .position_edits import stack_of


def fitting(intervention: Intervention, trace: Trace, kind: Kind) -> Intervention:
    """Return the edits that act in a model of this kind; ``trace`` is one of its clean runs."""
    return Intervention(tuple(edit for edit in intervention if _fits(edit, trace, kind)))


def _fits(edit: Edit, trace: Trace, kind: Kind) -> bool:
    if isinstance(edit, Pad):
        return kind.padded
    if isinstance(edit, ScalePositions | ShufflePositions):
        return any(edit.stack in (None, stack_of(name)) for name in trace.positions)
    if isinstance(edit, BlockKeys | BlockEdges) and kind.takes != "text":
        return False  # token positions are no patch positions
    if isinstance(edit, Swap) and kind.takes != "text":
        return False
    if isinstance(edit, MeanHead):
        return False  # the stored means belong to another model
    heads = trace.heads
    for column, wanted in zip(("stack", "block", "layer", "head"), edit.selectors, strict=False):
        if wanted not in (None, "feed_forward"):
            heads = heads[heads[column] == wanted]
    return not heads.empty
