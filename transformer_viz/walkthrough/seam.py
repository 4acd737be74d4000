"""Check that no unknown operation lies between two stages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.stages import Stage


def seam(before: Stage, after: np.ndarray, block: str) -> Iterator[Stage]:
    """Yield a stage if padding was set to zero after a stage; nothing if its output is unchanged.

    Raises:
        ValueError: Another operation changed the output, so the walkthrough would be wrong.
    """
    if np.array_equal(before["out"], after, equal_nan=True):
        return
    if after.any():
        raise ValueError(
            f"Behind {before.name} this model does something that is not known here, so its chain "
            "cannot be shown."
        )
    yield Stage("zeroed", block, {"x": before["out"], "out": after})
