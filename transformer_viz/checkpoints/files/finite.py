"""Weights that are NaN or infinite, found in one reading and refused by name."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from .errors import CheckpointError

PIECE = 2**24  # numbers that are looked at together


def refuse_non_finite(name: str, tensor: Tensor, path: Path) -> None:
    """Refuse weights that are NaN or infinite: nothing that such a model shows means anything.

    Raises:
        CheckpointError: names the tensor and counts its bad values.
    """
    if not tensor.is_floating_point() or all_finite(tensor):
        return
    pieces = tensor.detach().reshape(-1).split(PIECE)  # so that a large one is never held twice
    bad = sum(int((~torch.isfinite(piece.float())).sum()) for piece in pieces)
    if bad:
        raise CheckpointError(
            f"{name} in {path.name} has {bad:,} values that are NaN or infinite; the training "
            "diverged or the file is damaged. Take an earlier checkpoint."
        )


def all_finite(tensor: Tensor) -> bool:
    """Return whether all numbers are finite, read once and without a copy.

    NaN passes through a minimum and a maximum, and one of the two is infinite where any number is.
    """
    if not tensor.numel():
        return True
    try:
        ends = torch.stack(torch.aminmax(tensor.detach()))
    except RuntimeError:  # 8-bit floats have no minimum
        return False
    return bool(torch.isfinite(ends).all())
