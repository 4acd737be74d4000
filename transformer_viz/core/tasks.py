"""What the numbers of a classification head mean, and the unit in which they are measured.

The words are those of ``problem_type`` in a transformers config. Everything else that ends in an
output layer (words, tags, spans) is one of several choices, measured by a softmax.
"""

from __future__ import annotations

import numpy as np

from .numerics import log_softmax, softmax

SINGLE_LABEL, MULTI_LABEL, REGRESSION = "single_label", "multi_label", "regression"
TASKS = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
ENDS = ("start", "end")  # of an answer
NATS, LOGIT, PROBABILITY, SHARE = "nats", "logit", "probability", "share"


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
