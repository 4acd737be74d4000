"""Weights that are NaN or infinite, found in one pass and refused by name."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from .errors import CheckpointError

PIECE = 2**24  # numbers that are checked at once


def refuse_non_finite(name: str, tensor: Tensor, path: Path) -> None:
    """Refuse weights that are NaN or infinite: results of such a model are meaningless.

    Raises:
        CheckpointError: Names the tensor and counts its bad values.
    """
    if not tensor.is_floating_point() or all_finite(tensor):
        return
    pieces = tensor.detach().reshape(-1).split(PIECE)  # so that a large one is never copied whole
    bad = sum(int((~torch.isfinite(piece.float())).sum()) for piece in pieces)
    if bad:
        raise CheckpointError(
            f"{name} in {path.name} has {bad:,} values that are NaN or infinite; the training "
            "diverged or the file is damaged. Take an earlier checkpoint."
        )


def all_finite(tensor: Tensor) -> bool:
    """Return True if all numbers are finite, with one read and no copy.

    NaN passes through a minimum and a maximum, and one of the two is infinite if any number is.
    """
    if not tensor.numel():
        return True
    try:
        ends = torch.stack(torch.aminmax(tensor.detach()))
    except RuntimeError:  # 8-bit floats have no minimum
        return False
    return bool(torch.isfinite(ends).all())
