"""Sum behind one number of a walkthrough, with the factors from the model's weights.

The weights are too large to be part of a walkthrough, so a sum is computed on request.
"""

from __future__ import annotations

import numpy as np

from ..checkpoints.common.model import Model
from ..core.stages import Number, Terms, Walkthrough
from .opened_number import Opened
from .sum_terms import SUMS


def terms(model: Model, inside: Walkthrough, number: Number) -> Terms:
    """Return the sum that gives one number of a walkthrough.

    Args:
        model: Model of the walkthrough.
        inside: Walkthrough from `step_inside`.
        number: Number of an array that ``stages.OPENS`` names; see ``Walkthrough.number``.

    Raises:
        LookupError: The number is no sum, such as the score of a hidden key, or its exponential.
    """
    stage = inside[number.stage]
    opened = Opened(model, inside, stage, number)
    make = SUMS.get((stage.kind, number.array))
    found = make(opened) if make is not None and np.isfinite(opened.total) else None
    if found is None or not np.isfinite(found.sum):  # the exponential of an infinite score is 0
        raise LookupError(f"The number {number} is no sum that can be opened.")
    return found
