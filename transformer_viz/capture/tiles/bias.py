"""Score biases in compact form, if they depend on distance or key."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core.tiles.cells import CELL, DISTANCE, KEY

CLOSE = 1e-6  # largest difference of two biases of one distance, relative to sizes above 1
MOST_BYTES = 64 * 1024**2  # of a bias that depends on neither, as for the places of a picture
Small = tuple[str, Tensor]


def small(bias: Tensor, visible: Tensor | None) -> Small | None:
    """Return kind and table of a bias ``[head or 1, query or 1, key]``; None if it is 0.

    Where ``visible`` (bool, same axes) is false the bias may be anything.

    Raises:
        ValueError: A large bias depends on neither distance nor key; the message continues "its
            scores".
    """
    if bias.shape[1] == 1 or bias.stride(1) == 0:
        return (KEY, bias[:, 0].float()) if bool(bias[:, 0].any()) else None
    if not bool(bias.any()):
        return None
    for kind in (DISTANCE, KEY):
        table = followed(kind, bias.float(), visible)
        if table is not None:
            return kind, table
    if 4 * bias.numel() > MOST_BYTES:
        raise ValueError(
            "add a table that follows neither distances nor keys, and is as large as the map"
        )
    return CELL, bias.float()


def followed(kind: str, bias: Tensor, visible: Tensor | None) -> Tensor | None:
    """Return a table ``[head, distance]`` or ``[head, key]`` that gives the bias of all visible
    cells.

    None if there is none.
    """
    heads, queries, keys = bias.shape
    table = bias.new_zeros(heads, queries + keys - 1 if kind == DISTANCE else keys)

    def of_row(row: int) -> Tensor:
        first = queries - 1 - row if kind == DISTANCE else 0
        return table[:, first : first + keys]

    def seen(row: int) -> Tensor | None:
        return None if visible is None else visible[:, row if visible.shape[1] > 1 else 0]

    for row in range(queries):
        see, part = seen(row), of_row(row)
        part.copy_(bias[:, row] if see is None else torch.where(see, bias[:, row], part))
    for row in range(queries):
        see, off = seen(row), (of_row(row) - bias[:, row]).abs()
        off = off - CLOSE * bias[:, row].abs().clamp(min=1)
        if bool((off if see is None else off.masked_fill(~see, 0)).max() > 0):
            return None
    return table
