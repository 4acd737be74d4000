"""Attention row of a picture, arranged as the grid of its patches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.trace import Trace

PARTS = ("weights", "gradients")


@dataclass(frozen=True, eq=False)
class PatchRow:
    """Values between one token of a picture and all others.

    Attributes:
        patches: Values at the patches, float32 ``[row, column]``.
        front: Values at the tokens before the patches, ``[token]``; empty for a text with a picture
            beside it.
        names: Labels of all tokens, in order.
        first: Index of the first patch.
    """

    patches: np.ndarray
    front: np.ndarray
    names: tuple[str, ...]
    first: int

    def place(self, query: int) -> tuple[int, int] | None:
        """Return row and column of a token; None if it is not a patch."""
        inside = 0 <= query - self.first < self.patches.size
        return divmod(query - self.first, self.patches.shape[1]) if inside else None

    @property
    def values(self) -> np.ndarray:
        """Row of the picture's tokens as in the model, ``[token]``."""
        return np.concatenate([self.front, self.patches.ravel()])

    def strongest(self, count: int = 5) -> list[tuple[str, float]]:
        """Return the patches with the largest absolute values, in order."""
        flat = self.patches.ravel()
        order = np.argsort(-np.abs(flat), kind="stable")[:count]
        return [(self.names[self.first + int(place)], float(flat[place])) for place in order]


def patch_row(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    query: int,
    what: str = "weights",
    minus: Trace | None = None,
) -> PatchRow:
    """Return one row of a head as a picture's grid: its ``weights``, or its ``gradients``.

    Args:
        trace: Run on a picture.
        block: Map of the trace.
        layer: Layer, from 0.
        head: Head, from 0.
        query: Token, from 0; tokens before the patches count too.
        what: ``weights``, or d(chosen logit)/d(weights) if captured.
        minus: Another run on the same picture, whose values are subtracted.

    Raises:
        LookupError: The run has no picture, or lacks the map, layer, head or token.
        ValueError: Unknown ``what``.
    """
    if what not in PARTS:
        raise ValueError(f"A picture shows {' or '.join(PARTS)}; got {what!r}.")
    cut = trace.manifest.get("image")
    if not cut:
        raise LookupError("This run was not over a picture, so its tokens are no patches.")
    heads = _heads(trace, block, layer, what)
    if minus is not None:
        heads = heads - _heads(minus, block, layer, what)
    for name, number, size in (("heads", head, len(heads)), ("tokens", query, heads.shape[1])):
        if not 0 <= number < size:
            raise LookupError(f"{block!r} L{layer} has {name} 0 to {size - 1}; got {number}.")
    row, first = heads[head, query], int(cut["prefix"])
    rows, columns = cut["grid"]
    patches = row[first : first + rows * columns].reshape(rows, columns)
    front = row[: 0 if trace.source.ids else first]
    return PatchRow(patches, front, trace.source.labels, first)


def _heads(trace: Trace, block: str, layer: int, what: str) -> np.ndarray:
    return trace.attention(block, layer) if what == "weights" else trace.gradients(block, layer)
