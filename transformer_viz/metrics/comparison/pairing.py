"""Which heads of two models look alike, one to one, and how clearly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...core.sites import MAPS
from .assignment import assignment

CLEAR = 0.02  # bits: a pair whose next best is nearer than this is ambiguous
FAR = 1e6  # a cost that no sum of divergences reaches


@dataclass(frozen=True, eq=False)
class Costs:
    """Mean divergence in bits of every head of one side from every one of the other, of one map.

    ``cost`` ``[head, other head]``, NaN where no row could be asked; ``places`` and ``others`` are
    ``(layer, head)`` of both sides.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, int], ...]
    cost: np.ndarray


def paired(costs: Costs, within: int | None = None) -> pd.DataFrame:
    """Each head with its counterpart, so that the divergences of all pairs sum to the least.

    Columns: stack, block, layer, head; ``other_layer``, ``other_head``; ``divergence``; ``margin``,
    by how much the next best head of the other side is farther (below 0 where one nearer went to
    another head); ``same``, whether both stand at the same place; ``ambiguous``, a margin below
    0.02. Missing where a head has no counterpart.

    Args:
        costs: of one map.
        within: how many layers apart counterparts may stand; None lets them stand anywhere.
    """
    allowed = np.isfinite(costs.cost)
    if within is not None:
        apart = np.subtract.outer([p[0] for p in costs.places], [p[0] for p in costs.others])
        allowed &= np.abs(apart) <= within
    cost = np.where(allowed, costs.cost, FAR)
    chosen = assignment(cost)
    rows = []
    stack, block = MAPS[costs.name]
    for number, (place, other) in enumerate(zip(costs.places, chosen, strict=True)):
        there = other >= 0 and bool(allowed[number, other])
        near = float(cost[number, other]) if there else np.nan
        rest = [c for n, c in enumerate(cost[number]) if n != other and allowed[number, n]]
        margin = min(rest) - near if there and rest else np.nan
        layer, head = costs.others[other] if there else (pd.NA, pd.NA)
        same = there and costs.others[other] == place
        rows.append((stack, block, *place, layer, head, near, margin, same, bool(margin < CLEAR)))
    names = ["stack", "block", "layer", "head", "other_layer", "other_head"]
    table = pd.DataFrame(rows, columns=[*names, "divergence", "margin", "same", "ambiguous"])
    return table.astype({"other_layer": "Int64", "other_head": "Int64"})
