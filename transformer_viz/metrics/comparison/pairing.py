"""One-to-one matching of similar heads of two models, with margins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...core.sites import MAPS
from .assignment import assignment

CLEAR = 0.02  # bits; a pair with a smaller margin is ambiguous
FAR = 1e6  # a cost above any sum of divergences


@dataclass(frozen=True, eq=False)
class Costs:
    """Mean divergence in bits of all pairs of heads of two sides, for one map.

    ``cost`` is ``[head, other head]``, NaN without rows; ``places`` and ``others`` are ``(layer,
    head)`` of both sides.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    others: tuple[tuple[int, int], ...]
    cost: np.ndarray


def paired(costs: Costs, within: int | None = None) -> pd.DataFrame:
    """Match each head with a counterpart, with minimal total divergence.

    Columns are stack, block, layer, head, ``other_layer``, ``other_head`` and ``divergence``.
    ``margin`` is the distance to the next best head of the other side (negative if a nearer one is
    matched to another head). ``same`` is True if both have the same place, ``ambiguous`` for a
    margin below 0.02. Values are missing without a counterpart.

    Args:
        costs: Costs of one map.
        within: Largest layer distance of counterparts; None for no limit.
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
