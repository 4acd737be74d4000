"""Whether row 3 of a map is token 3: told by what changes when this token is another one."""

from __future__ import annotations

import torch
from torch import Tensor

from ...capture.records import AttentionRecord

CHANGED = 1e-4  # of the largest score: above what rounding leaves


def own_rows(before: AttentionRecord, after: AttentionRecord, token: int) -> float | None:
    """0 where a changed token changes its own row and column of the scores and no other ones (as in
    a first layer), or, under a causal mask, no row before its own; infinity where it is another
    row; None where the change has spread too far to tell.
    """
    if before.scores is None or after.scores is None or before.scores.shape != after.scores.shape:
        return None
    items = differing(before.scores, after.scores)
    touched = items.flatten(1).any(1).nonzero().flatten().tolist()
    if not touched:
        return None
    if len(touched) == 1:  # of windows, one after the other, the one that holds the token
        token -= touched[0] * items.shape[1]
    cells = items.any(0)
    row, column = token - before.offset, token - before.first_key
    if only_cross(cells, row, column):
        return 0.0
    if any(only_cross(cells, other, other) for other in range(min(cells.shape))):
        return float("inf")
    if before.weights is not None and causal(before.weights, before.offset - before.first_key):
        return 0.0 if int(cells.any(1).nonzero()[0]) == row else float("inf")
    return None


def differing(one: Tensor, other: Tensor) -> Tensor:
    """The cells ``[item, query, key]`` that differ in any head."""
    one, other = one.double(), other.double()
    seen = one.isfinite() & other.isfinite()
    size = one[seen].abs().max() if bool(seen.any()) else one.new_ones(())
    gap = torch.where(seen, (one - other).abs(), 0.0)
    return (gap > CHANGED * size).any(1)


def only_cross(cells: Tensor, row: int, column: int) -> bool:
    """Whether all cells stand in one row and one column."""
    rest = cells.clone()
    if 0 <= row < len(rest):
        rest[row] = False
    if 0 <= column < rest.shape[1]:
        rest[:, column] = False
    return not bool(rest.any())


def causal(weights: Tensor, offset: int) -> bool:
    """Whether no row looks at a later key."""
    return not bool(weights.triu(1 + offset).any())
