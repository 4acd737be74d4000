"""Assignment problem: one-to-one matching with minimal total cost."""

from __future__ import annotations

import numpy as np


def assignment(cost: np.ndarray) -> np.ndarray:
    """Return the column of each row, int ``[row]``, with minimal total cost.

    Exact, by shortest augmenting paths (Kuhn 1955; Jonker and Volgenant 1987). With fewer columns
    than rows, some rows get -1.

    Args:
        cost: ``[row, column]``, finite.

    Raises:
        ValueError: A cost is not finite.
    """
    cost = np.asarray(cost, np.float64)
    if not np.isfinite(cost).all():
        raise ValueError(
            "Every cost of an assignment must be a finite number; got NaN or infinity."
        )
    if cost.shape[0] > cost.shape[1]:
        turned = assignment(cost.T)
        found = np.full(cost.shape[0], -1)
        found[turned] = np.arange(len(turned))
        return found
    rows, columns = cost.shape
    # prices of rows and columns keep every reduced cost at least 0; column 0 is an extra start
    row_price, column_price = np.zeros(rows + 1), np.zeros(columns + 1)
    owner = np.zeros(columns + 1, int)  # row of each column, from 1; 0: none
    for row in range(1, rows + 1):
        _augment(cost, row, row_price, column_price, owner)
    found = np.full(rows, -1)
    taken = np.flatnonzero(owner[1:])
    found[owner[1:][taken] - 1] = taken
    return found


def _augment(
    cost: np.ndarray,
    row: int,
    row_price: np.ndarray,
    column_price: np.ndarray,
    owner: np.ndarray,
) -> None:
    """Assign a column to one more row along the cheapest path; others may move."""
    owner[0], at = row, 0
    distance = np.full(len(owner), np.inf)
    came_from = np.zeros(len(owner), int)
    done = np.zeros(len(owner), bool)
    while owner[at]:
        done[at] = True
        here = owner[at]
        reduced = cost[here - 1] - row_price[here] - column_price[1:]
        nearer = ~done[1:] & (reduced < distance[1:])
        distance[1:][nearer] = reduced[nearer]
        came_from[1:][nearer] = at
        open_ends = np.where(done, np.inf, distance)
        at = int(open_ends[1:].argmin()) + 1
        step = open_ends[at]
        row_price[owner[done]] += step
        column_price[done] -= step
        distance[~done] -= step
    while at:
        owner[at] = owner[came_from[at]]
        at = came_from[at]
