"""Tensors of a run with a batch of one, as the read-only float32 arrays of a stage."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..core.trace_parts import read_only
from ..inference.capture_to_numpy import to_numpy


def row_of(x: Tensor, row: int) -> np.ndarray:
    """One token's vector of ``[1, token, width]``."""
    return to_numpy(x[0, row])


def head_of(x: Tensor, head: int, heads: int) -> np.ndarray:
    """One head's part ``[token, width]`` of ``[1, token, heads x width]``."""
    width = x.shape[-1] // heads
    return to_numpy(x[0, :, head * width : (head + 1) * width])


def as_float32(x: np.ndarray) -> np.ndarray:
    """What was computed here in float64, as a stage holds it."""
    return read_only(np.array(x, dtype=np.float32))
