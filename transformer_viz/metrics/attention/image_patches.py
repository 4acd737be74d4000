"""One row of a picture's attention, put back where its patches stand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.trace import Trace

PARTS = ("weights", "gradients")


@dataclass(frozen=True, eq=False)
class PatchRow:
    """What one token of a picture has to do with every other.

    ``patches`` float32 ``[row, column]`` are the values at the patches, ``front`` those at the
    tokens before them ``[token]``; ``names`` are the labels of all, in the order of the tokens, and
    ``first`` the number of the first patch. Of a text with a picture beside it ``front`` is empty:
    words are no part of a picture.
    """

    patches: np.ndarray
    front: np.ndarray
    names: tuple[str, ...]
    first: int

    def place(self, query: int) -> tuple[int, int] | None:
        """Row and column of a token; None where it is no patch."""
        inside = 0 <= query - self.first < self.patches.size
        return divmod(query - self.first, self.patches.shape[1]) if inside else None

    @property
    def values(self) -> np.ndarray:
        """The row as the model has it, ``[token]``, as far as it is the picture's."""
        return np.concatenate([self.front, self.patches.ravel()])

    def strongest(self, count: int = 5) -> list[tuple[str, float]]:
        """The patches with the largest values, whatever their sign, largest first."""
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
    """One row of a head as a picture's grid: its ``weights``, or its ``gradients``.

    Args:
        trace: a run over a picture.
        block: a map that the trace has.
        layer, head, query: from 0; ``query`` counts the tokens in front of the patches too.
        what: ``weights``, or d(chosen logit)/d(weights) where it was kept.
        minus: another run over the same picture, whose values are taken away.

    Raises:
        LookupError: a run over no picture, or a map, layer, head or token that it lacks.
        ValueError: another word than these two.
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
