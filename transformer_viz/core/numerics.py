"""Softmax, entropy and masks of arrays, the scores of a classification head, and thresholds.

Tasks are named as in ``problem_type`` of a transformers config. All other output layers (tokens,
spans) choose one of several classes, measured by a softmax.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

#: Largest additive score of a mask: models mask with -1e4 (float16 ends at 65504), -1e9 or minus
#: infinity. No score of a trained model comes near -1000.
MASK_SCORE = -1e3
#: Scores as low as this (-1e9, or the minimum of a dtype) are masks that were not detected from
#: their operations. It is far below MASK_SCORE, as a low temperature makes ordinary scores low too.
VERY_LOW = -1e8
#: Number of values that are converted to float64 together.
BLOCK = 2**18
#: Temperatures below this are 0 (hard attention): scores divided by them would exceed float32.
COLD = 1e-30

#: Tasks of a classification head, and units of its scores.
SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label", "multi_label", "regression"
TASKS = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
ENDS = ("start", "end")  # start and end of an answer
NATS, LOGIT, PROBABILITY, SHARE = "nats", "logit", "probability", "share"


def namespace(x: Any) -> Any:
    """Return the library of an array: numpy, or else torch."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return the softmax of scores ``[..., key]`` over the last axis, in their dtype.

    A score of -inf gives 0. A row of only -inf gives NaN, as in torch.
    """
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def weight_bits(weights: Any) -> Any:
    """Return ``w log2 w`` of each weight in a new array: 0 for 0, NaN for negative weights.

    Args:
        weights: A numpy array of floats, or a tensor that needs no gradient.
    """
    xp = namespace(weights)
    bits = weights + float(xp.finfo(weights.dtype).tiny)  # changes no weight but 0
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
    """Return True for cells of attention that are not masked, bool ``[..., query, key]``.

    Args:
        weights: ``[..., query, key]``. Without scores, a cell of weight 0 counts as hidden, which
            is wrong for hard attention and switched-off heads.
        scores: Input of the softmax, with any sinks after the keys. A very low score is a mask.
        divided: True if an edit divided the scores by a temperature, which makes any score low.
            Then only minus infinity is a mask, or a row of only very low numbers. A bool, or an
            array of bool that broadcasts.
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
    """Return the natural log of `softmax`, ``[..., key]`` float64; finite for tiny weights."""
    exact = np.asarray(scores, np.float64)
    with np.errstate(invalid="ignore"):
        shifted = exact - exact.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def log_softmax_at(logits: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Return the `log_softmax` of one choice per row, float64 ``[row]``, without a copy of all.

    Args:
        logits: ``[row, choice]``.
        ids: The choice of each row.
    """
    found = [
        log_softmax(logits[rows])[np.arange(rows.stop - rows.start), list(ids[rows])]
        for rows in blocks(logits)
    ]
    return np.concatenate(found) if found else np.empty(0)


def rank_at(logits: np.ndarray, ids: Sequence[int]) -> np.ndarray:
    """Return the rank of one choice per row, int64 ``[row]``; 1 is the largest of ``[choice]``."""
    found = [np.empty(0, np.int64)]
    for rows in blocks(logits):
        some, chosen = logits[rows], list(ids[rows])
        own = some[np.arange(len(some)), chosen]
        found.append(1 + (some > own[:, None]).sum(axis=1, dtype=np.int64))
    return np.concatenate(found)


def blocks(logits: np.ndarray) -> Iterator[slice]:
    """Yield slices of rows ``[row, choice]`` with about `BLOCK` numbers each."""
    step = max(1, BLOCK // max(1, logits.shape[-1]))
    for start in range(0, len(logits), step):
        yield slice(start, min(start + step, len(logits)))


def unit_of(task: str) -> str:
    """Return the unit of a score: ``logit`` for a regression, else ``nats``.

    A class is measured by its log-softmax and a label by its log-sigmoid: the terms of
    cross-entropy, the training loss of such heads. The output of a regression (a reranker, a reward
    model) is measured as it is.
    """
    return LOGIT if task == REGRESSION else NATS


def probabilities(logits: np.ndarray, task: str) -> np.ndarray:
    """Return the probabilities of logits ``[..., class]``.

    Single-label tasks use the softmax over all classes, multi-label tasks the sigmoid of each. A
    regression gives NaN.
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
    """Return the task of a head with ``outputs`` outputs.

    Args:
        outputs: Number of outputs per input, or per token.
        problem_type: ``problem_type`` of a transformers config, if given.
    """
    named = str(problem_type or "").removesuffix("_classification")
    if named in (MULTI_LABEL, REGRESSION):
        return named
    return REGRESSION if outputs == 1 else SINGLE_LABEL


def best_span(logits: np.ndarray) -> tuple[int, int]:
    """Return the first and last token of the best answer.

    The best answer has the largest sum of its two logits among all spans whose start is not after
    their end (Devlin et al. 2019, section 4.2). It may contain any token. For models trained with
    unanswerable questions, the first token alone means "no answer".

    Args:
        logits: ``[2, token]``, of starts and of ends.
    """
    start, end = np.asarray(logits, np.float64)
    last = int((np.maximum.accumulate(start) + end).argmax())
    return int(start[: last + 1].argmax()), last
