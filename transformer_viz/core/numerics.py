"""Softmax, entropy and masks of arrays, the scores of a classification head, and thresholds.

The words for tasks are those of ``problem_type`` in a transformers config. Everything else that
ends in an output layer (words, spans) is one of several choices, measured by a softmax.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

#: At most this much, added to a score, is a mask: models mask with -1e4 (float16 holds no more than
#: 65504), -1e9 or minus infinity, and no score of a trained model comes near -1000.
MASK_SCORE = -1e3
#: Masks are known from how they came about; a score as low as this (of -1e9, or the least of a
#: type) is one that was not seen coming. It is far below MASK_SCORE, as a low temperature makes
#: ordinary scores low too.
VERY_LOW = -1e8
#: Numbers that are widened to float64 together.
BLOCK = 2**18
#: Temperatures below it are 0 (hard attention): scores divided by them would outgrow float32.
COLD = 1e-30

#: Tasks of a classification head, and units of its scores.
SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label", "multi_label", "regression"
TASKS = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
ENDS = ("start", "end")  # of an answer
NATS, LOGIT, PROBABILITY, SHARE = "nats", "logit", "probability", "share"


def namespace(x: Any) -> Any:
    """Return the library whose functions take an array: numpy, or else torch, which made it."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Scores ``[..., key]`` to weights that sum to 1 over the last axis, in the type of the scores.

    A score of -inf gets 0; a row of nothing else gives NaN, as it does in torch.
    """
    with np.errstate(invalid="ignore"):  # -inf less -inf
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def weight_bits(weights: Any) -> Any:
    """Return ``w log2 w`` of each weight in a new array: 0 for 0, NaN for what is negative.

    Args:
        weights: a numpy array of floats, or a tensor that needs no gradient.
    """
    xp = namespace(weights)
    bits = weights + float(xp.finfo(weights.dtype).tiny)  # which changes no weight but 0
    if xp is not np:
        return bits.log2_().mul_(weights)
    with np.errstate(invalid="ignore"):
        np.log2(bits, out=bits)
        bits *= weights
    return bits


def entropy_bits(weights: Any) -> Any:
    """Return the entropy of distributions ``[..., key]`` in bits, ``[...]`` (Shannon 1948)."""
    return 0.0 - weight_bits(weights).sum(-1)


def visible_cells(weights: Any, scores: Any = None, divided: Any = False) -> Any:
    """Return which cells of attention are not masked, bool ``[..., query, key]``.

    Args:
        weights: ``[..., query, key]``. Alone they say only that a cell of weight 0 is hidden, which
            hard attention and switched-off heads make wrong.
        scores: as the softmax got them, with any sinks behind the keys. A very low one is a mask.
        divided: whether an edit divided them by a temperature, which makes any score low: then only
            minus infinity is a mask, and a row of nothing but low numbers. A bool, or an array
            of bool that broadcasts.
    """
    if scores is None:
        return abs(weights) > 0
    scores = scores[..., : weights.shape[-1]]
    seen = scores > MASK_SCORE
    if np.any(divided):
        largest = scores.max(axis=-1, keepdims=True)
        seen = np.where(divided, (scores > -np.inf) & (largest > VERY_LOW), seen)
    return seen


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """The natural logarithm of `softmax`, ``[..., key]`` float64: finite where a weight is tiny."""
    exact = np.asarray(scores, np.float64)
    with np.errstate(invalid="ignore"):
        shifted = exact - exact.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def log_softmax_at(logits: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Return the `log_softmax` of one choice a row, float64 ``[row]``, without a copy of all.

    Args:
        logits: ``[row, choice]``.
        ids: the choice of each row.
    """
    found = [
        log_softmax(logits[rows])[np.arange(rows.stop - rows.start), list(ids[rows])]
        for rows in blocks(logits)
    ]
    return np.concatenate(found) if found else np.empty(0)


def rank_at(logits: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Return the rank of one choice a row, int64 ``[row]``; 1 is the largest of ``[choice]``."""
    found = [np.empty(0, np.int64)]
    for rows in blocks(logits):
        some, chosen = logits[rows], list(ids[rows])
        own = some[np.arange(len(some)), chosen]
        found.append(1 + (some > own[:, None]).sum(axis=1, dtype=np.int64))
    return np.concatenate(found)


def blocks(logits: np.ndarray) -> Iterator[slice]:
    """Cut rows ``[row, choice]`` into blocks of about `BLOCK` numbers."""
    step = max(1, BLOCK // max(1, logits.shape[-1]))
    for start in range(0, len(logits), step):
        yield slice(start, min(start + step, len(logits)))


def unit_of(task: str) -> str:
    """Return the unit of a score: ``logit`` for a regression, else ``nats``.

    A class is measured by the logarithm of its softmax and a label by that of its sigmoid: the
    terms of cross-entropy, the losses that such heads are trained with. An output of a regression
    (a reranker, a reward model) is measured as it is.
    """
    return LOGIT if task == REGRESSION else NATS


def probabilities(logits: np.ndarray, task: str) -> np.ndarray:
    """Return the probabilities of logits ``[..., class]``; NaN where outputs have none.

    The softmax over all, of several labels the sigmoid of each, of a regression NaN.
    """
    given = np.asarray(logits)
    if task == REGRESSION:
        return np.full(given.shape, np.nan)
    return np.exp(scores_of_logits(given, task)) if task == MULTI_LABEL else softmax(given)


def scores_of_logits(logits: np.ndarray, task: str) -> np.ndarray:
    """Return the scores of logits ``[..., class]`` in the unit of the task, float64."""
    given = np.asarray(logits, np.float64)
    if task == REGRESSION:
        return given
    return -np.logaddexp(0.0, -given) if task == MULTI_LABEL else log_softmax(given)


def task_of(outputs: int, problem_type: str | None = None) -> str:
    """Return the task of a head with so many outputs.

    Args:
        outputs: how many numbers it gives for an input, or for a token.
        problem_type: that of a transformers config, where it says one.
    """
    named = str(problem_type or "").removesuffix("_classification")
    if named in (MULTI_LABEL, REGRESSION):
        return named
    return REGRESSION if outputs == 1 else SINGLE_LABEL


def best_span(logits: np.ndarray) -> tuple[int, int]:
    """Return the first and last token of the best answer.

    It has the largest sum of its two logits among all spans whose start is not behind their end
    (Devlin et al. 2019, section 4.2). All tokens may be in it; the first one alone means, for
    models trained so, that there is no answer.

    Args:
        logits: ``[2, token]``, of starts and of ends.
    """
    start, end = np.asarray(logits, np.float64)
    last = int((np.maximum.accumulate(start) + end).argmax())
    return int(start[: last + 1].argmax()), last
