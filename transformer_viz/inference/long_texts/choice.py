"""Choice of captured data: matrices for a short text, tiles for a long one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...checkpoints.common.longer import unlimited
from ...checkpoints.common.model import Model
from ...core.tiles import LONG
from ..token_ids import source_ids, target_ids

TILES = ("tiles",)


def kept_of(model: Model, source: Any, target: Any, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``words``, or tiles if the text or given target has more than 1,024 tokens.

    Raises:
        ValueError: The model cannot read the text.
    """
    drawn = isinstance(source, np.ndarray) and source.dtype.kind == "f"
    if model.takes != "text" or model.eyes is not None or drawn:
        return words
    if isinstance(source, tuple) and all(isinstance(text, str) for text in source):
        return words  # models of text pairs read short ones
    model = unlimited(model)
    count, further = len(source_ids(model, source)), 0
    if target is not None:
        further = len(target_ids(model, target))
    both = count + further if model.kind == "decoder-only" else max(count, further)
    return TILES if both > LONG else words
