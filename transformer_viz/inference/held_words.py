"""Alignment of an edited run's output tokens with those of the clean run."""

from __future__ import annotations

from ..checkpoints.common.model import Model
from ..core.interventions import Intervention, Pad
from ..core.trace import Trace


def held_words(model: Model, clean: Trace, changes: Intervention) -> dict[str, list[int | None]]:
    """Return ``target`` and ``produced`` ids of the clean run, for use in an edited run.

    If the source's rows make the predictions, as in masked models, rows of added padding are
    assigned the padding id.
    """
    held: dict[str, list[int | None]] = {}
    if clean.target is not None and clean.target.ids:  # vectors have no ids
        held["target"] = list(clean.target.ids)
    if clean.produced is not None:
        held["produced"] = list(clean.produced.ids)
        if clean.target is None and model.gives in ("words", "tags"):
            padding = sum(edit.count for edit in changes if isinstance(edit, Pad))
            held["produced"] += [model.pad_id if model.gives == "words" else 0] * padding
    return held
