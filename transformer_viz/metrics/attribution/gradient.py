"""R3: gradient x attention, propagated through the layers (Chefer, Gur and Wolf 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .rollout import Rolled


@dataclass(frozen=True, eq=False)
class Raised:
    """Weights and gradients of one attention block for a single logit.

    ``weights`` and ``gradients`` are ``[head, query, key]``.
    """

    stack: str
    block: str
    weights: np.ndarray
    gradients: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """``mean over heads of relu(gradient x weight)``, float64 ``[query, key]``, not below 0."""
        product = np.asarray(self.gradients, np.float64) * np.asarray(self.weights, np.float64)
        return np.maximum(np.nan_to_num(product), 0.0).mean(0)


def relevance(steps: Sequence[Raised]) -> Rolled:
    """Return the relevance of every input for the logit, for each last row; use the selected one.

    ``R_ss += A R_ss``; in the decoder also ``R_sq += A R_sq``; in a cross block ``R_sq +=
    norm(R_ss)^T A norm(R_qq)`` with ``norm(R) = rows of (R - I) divided by their sum, plus I``. All
    entries are at least 0. With a gradient of 0 everywhere each input is relevant only for its own
    row. Chefer et al. 2021, equations 5 to 11.

    Raises:
        ValueError: No steps.
    """
    if not steps:
        raise ValueError("No attention was seen, so nothing carries relevance.")
    crossing = any(step.block == "cross" for step in steps)
    first = [step for step in steps if step.stack == "encoder" or not crossing]
    lone = _own(first)
    if not crossing:
        assert lone is not None
        return Rolled(lone, None)
    own: np.ndarray | None = None
    other: np.ndarray | None = None
    for step in (step for step in steps if step.stack == "decoder"):
        raised = step.mean
        if lone is None:
            lone = np.eye(next(s.weights.shape[2] for s in steps if s.block == "cross"))
        if own is None or other is None:
            own, other = np.eye(len(raised)), np.zeros((len(raised), len(lone)))
        if step.block == "cross":
            other = other + normed(own).T @ raised @ normed(lone)
        else:
            own, other = own + raised @ own, other + raised @ other
    assert other is not None
    return Rolled(other, own)


def _own(steps: Sequence[Raised]) -> np.ndarray | None:
    found: np.ndarray | None = None
    for step in steps:
        raised = step.mean
        if raised.shape[0] != raised.shape[1]:
            raise ValueError(
                f"A self-attention of the {step.stack} has {raised.shape[0]} rows and "
                f"{raised.shape[1]} keys, so relevance cannot be carried through it. Removal does "
                "not need it: method='removal'."
            )
        found = np.eye(len(raised)) if found is None else found
        if len(found) != len(raised):
            raise ValueError(
                "The layers of this model have different tokens, so relevance cannot be carried "
                "through them. Removal does not need it: method='removal'."
            )
        found = found + raised @ found
    return found


def normed(relevance: np.ndarray) -> np.ndarray:
    """Return ``norm(R)``: rows of ``R - I`` divided by their sum, plus I; zero rows stay zero."""
    size = np.eye(len(relevance))
    rest = np.maximum(relevance - size, 0.0)  # a diagonal of 1 - 1e-7 is 1
    total = rest.sum(-1, keepdims=True)
    return np.asarray(rest / np.where(total > 0, total, 1.0) + size)
