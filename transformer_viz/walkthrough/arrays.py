"""Conversion of tensors with a batch of one to the read-only float32 arrays of a stage."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..core.trace_parts import read_only
from ..inference.capture_to_numpy import to_numpy


def row_of(x: Tensor, row: int) -> np.ndarray:
    """Return one token's vector of ``[1, token, width]``."""
    return to_numpy(x[0, row])


def head_of(x: Tensor, head: int, heads: int) -> np.ndarray:
    """Return one head's part ``[token, width]`` of ``[1, token, heads x width]``."""
    width = x.shape[-1] // heads
    return to_numpy(x[0, :, head * width : (head + 1) * width])


def as_float32(x: np.ndarray) -> np.ndarray:
    """Return a float64 result as a read-only float32 array."""
    return read_only(np.array(x, dtype=np.float32))
