"""Arrays of any library as numpy: torch on any device, JAX, TensorFlow, numpy, lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How exact the numbers of a type are: the step above 1.
STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
EXACT = 1e-4  # what a row of 32 bits or more may be off
ROUNDED = 4  # steps that a row of fewer bits may be off


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers as numpy, float32 or float64, and what a sum of a row of them may be off."""

    values: np.ndarray
    dtype: str
    tolerance: float


def is_array(thing: Any) -> bool:
    """Whether a thing is an array of some library, and no list."""
    return hasattr(thing, "shape") and hasattr(thing, "dtype")


def numbers(thing: Any, what: str) -> Numbers:
    """An array, or nested lists of numbers, as numpy.

    Args:
        thing: what has ``__array__`` or ``__dlpack__``, a torch tensor on any device (attached to
            a graph or not), or lists.
        what: whose it is, for what is said of wrong ones.

    Raises:
        ValueError: no numbers, or lists of unequal length; says what came.
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
    if array.dtype.name == "bfloat16":  # of ml_dtypes, which JAX uses
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{what} holds {array.dtype}, and weights are floats; give the weights after the "
            "softmax."
        )
    wide = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    return Numbers(wide, name, max(EXACT, ROUNDED * STEPS.get(name, 0.0)))


def _array(thing: Any) -> np.ndarray:
    if hasattr(thing, "detach"):  # torch: off its graph, off its device
        thing = thing.detach().cpu()
        if str(thing.dtype) == "torch.bfloat16":  # which numpy does not have
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
    """Lists of arrays as lists of numpy."""
    if isinstance(thing, list | tuple):
        return [_plain(part) for part in thing]
    return _array(thing) if is_array(thing) else thing


def depth(thing: Any) -> int:
    """How many axes a thing has: an array, lists of arrays, or lists of numbers."""
    if is_array(thing):
        return len(thing.shape)
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return 1 + max((depth(part) for part in thing if part is not None), default=0)
    return 0
