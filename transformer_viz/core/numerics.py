"""The softmax in numpy, and thresholds that several rooms share."""

from __future__ import annotations

import numpy as np

#: At most this much, added to a score, is a mask: models mask with -1e4 (float16 holds no more than
#: 65504), -1e9 or minus infinity, and no score of a trained model comes near -1000.
MASK_SCORE = -1e3
#: Masks are known from how they came about; a score as low as this (of -1e9, or the least of a
#: type) is one that was not seen coming. It is far below MASK_SCORE, as a low temperature makes
#: ordinary scores low too.
VERY_LOW = -1e8
#: Temperatures below it are 0 (hard attention): scores divided by them would outgrow float32.
COLD = 1e-30


def softmax(scores: np.ndarray) -> np.ndarray:
    """Scores ``[..., key]`` to weights that sum to 1 over the last axis, in the type of the scores.

    A score of -inf gets 0; a row of nothing else gives NaN, as it does in torch.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """The natural logarithm of `softmax`, ``[..., key]`` float64: finite where a weight is tiny."""
    exact = np.asarray(scores, np.float64)
    with np.errstate(invalid="ignore"):
        shifted = exact - exact.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))
