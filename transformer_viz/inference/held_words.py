"""How a changed run is held to the words of the clean one, so that both speak about the same."""

from __future__ import annotations

from ..checkpoints.common.model import Model
from ..core.interventions import Intervention, Pad
from ..core.trace import Trace


def held_words(model: Model, clean: Trace, changes: Intervention) -> dict[str, list[int | None]]:
    """What a changed run is asked about: ``target`` and ``produced`` ids of the clean run.

    Where the source itself is answered, as by models that fill in words, padding that the changes
    add makes rows of its own, which are asked about padding.
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
