"""The sum behind one number of a chain: what is multiplied with what, from the model's weights.

Weights are too many to send along with a chain, so a sum is made when somebody opens a number.
"""

from __future__ import annotations

import numpy as np

from ..checkpoints.common.model import Model
from ..core.stages import Number, Terms, Walkthrough
from .opened_number import Opened
from .sum_terms import SUMS


def terms(model: Model, inside: Walkthrough, number: Number) -> Terms:
    """The sum that makes one number of a chain.

    Args:
        model: that the chain came from.
        inside: what `step_inside` gave.
        number: of an array that ``stages.OPENS`` names; see ``Walkthrough.number``.

    Raises:
        LookupError: a number that is no sum, such as the score of a hidden key, or e to the
            power of it; says so.
    """
    stage = inside[number.stage]
    opened = Opened(model, inside, stage, number)
    make = SUMS.get((stage.kind, number.array))
    found = make(opened) if make is not None and np.isfinite(opened.total) else None
    if found is None or not np.isfinite(found.sum):  # e to the power of an endless score is 0
        raise LookupError(f"The number {number} is no sum that can be opened.")
    return found
