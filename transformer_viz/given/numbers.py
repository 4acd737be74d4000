"""Conversion of arrays to numpy: torch on any device, JAX, TensorFlow, numpy, lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Precision of a dtype: its step above 1.
STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
EXACT = 1e-4  # tolerance of a row sum in 32 bits or more
ROUNDED = 4  # tolerance of a row sum in fewer bits, in steps


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers as numpy, float32 or float64, with the tolerance of their row sums."""

    values: np.ndarray
    dtype: str
    tolerance: float


def is_array(thing: Any) -> bool:
    """Return True if a value is an array of some library, and not a list."""
    return hasattr(thing, "shape") and hasattr(thing, "dtype")


def numbers(thing: Any, what: str) -> Numbers:
    """Return an array, or nested lists of numbers, as numpy.

    Args:
        thing: An object with ``__array__`` or ``__dlpack__``, a torch tensor on any device
            (attached to a graph or not), or lists.
        what: Name of the argument, for errors.

    Raises:
        ValueError: No numbers, or lists of unequal length. The message names the type.
    """
    try:
        array = _array(thing)
    except (TypeError, ValueError, RuntimeError, BufferError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{what} is no array of numbers but a {type(thing).__name__} ({reason}); give "
            "[layer, head, row, column], or a list with an array a layer."
        ) from error
    name = str(getattr(thing, "dtype", array.dtype)).removeprefix("torch.")
    if array.dtype.name == "bfloat16":  # from ml_dtypes, used by JAX
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{what} holds {array.dtype}, and weights are floats; give the weights after the "
            "softmax."
        )
    wide = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    return Numbers(wide, name, max(EXACT, ROUNDED * STEPS.get(name, 0.0)))


def _array(thing: Any) -> np.ndarray:
    if hasattr(thing, "detach"):  # torch: detach from the graph, copy to the CPU
        thing = thing.detach().cpu()
        if str(thing.dtype) == "torch.bfloat16":  # not supported by numpy
            thing = thing.float()
        return np.asarray(thing.numpy())
    if isinstance(thing, list | tuple):
        return np.asarray(_plain(thing), np.float64)
    if hasattr(thing, "__array__"):
        return np.asarray(thing)
    if hasattr(thing, "__dlpack__"):
        return np.from_dlpack(thing)
    raise TypeError("it has neither __array__ nor __dlpack__")


def _plain(thing: Any) -> Any:
    """Return lists of arrays as lists of numpy arrays."""
    if isinstance(thing, list | tuple):
        return [_plain(part) for part in thing]
    return _array(thing) if is_array(thing) else thing


def depth(thing: Any) -> int:
    """Return the number of axes of an array, lists of arrays, or lists of numbers."""
    if is_array(thing):
        return len(thing.shape)
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return 1 + max((depth(part) for part in thing if part is not None), default=0)
    return 0
