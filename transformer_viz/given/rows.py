"""Rows of a map that show its mask, and rows of padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .layers import Layer


def seen_cells(layers: Sequence[Layer]) -> np.ndarray:
    """Return the cells ``[row, column]`` with weight in some head of some layer.

    Rows of equal weights are ignored, and layers of another shape than the first.
    """
    shown = np.zeros(layers[0].weights.values.shape[1:], bool)
    for layer in layers:
        cells = np.asarray(layer.weights.values.any(axis=0))
        if cells.shape == shown.shape:
            cells[list(layer.equal)] = False
            shown |= cells
    return shown


def text_start(seen: np.ndarray) -> int:
    """Return the first row of text after padding on the left; 0 without padding.

    No row of the text sees the padding, and some row sees an earlier token of the text. Rows of
    padding may see other padding, or later tokens, if the mask adds a finite number.
    """
    for row in range(len(seen) - 1, 0, -1):
        if not seen[row:, :row].any() and np.tril(seen[row:, row:], -1).any():
            return row
    return 0


def reach(layer: Layer) -> int:
    """Return the largest number of keys, its own included, that a row looks back over."""
    seen = seen_cells([layer])
    start = text_start(seen)
    rows = [row for row in range(start, len(seen)) if seen[row].any()]
    return max((row - int(seen[row].argmax()) + 1 for row in rows), default=0)


def hides_later(layers: Sequence[Layer], causal_type: bool) -> bool | None:
    """Return True if later tokens are hidden, as in a decoder; None if no row is conclusive.

    Args:
        layers: Layers of one square map.
        causal_type: True if the output has the type of a causal language model. Such a model may
            still show a whole prefix (an image before text): then only some rows see a later token.
            A model of this type that hides no later token is an encoder (CTC models).
    """
    whole = seen_cells(layers)
    later = _later(whole)
    if not later.any():
        return None
    if not whole[later].any() or (causal_type and not whole[later].all()):
        return True
    start = text_start(whole)
    text = whole[start:, start:]
    later = _later(text)
    return bool(later.any() and not text[later].any())


def _later(seen: np.ndarray) -> np.ndarray:
    """Return the cells of later tokens, in rows with weight and columns that some row sees."""
    asked = np.outer(seen.any(axis=1), seen.any(axis=0))
    return np.triu(asked, 1)
