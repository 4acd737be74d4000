"""R3: gradient x attention, carried through the layers (Chefer, Gur and Wolf 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .rollout import Rolled


@dataclass(frozen=True, eq=False)
class Raised:
    """One attention block: where more weight would raise the one logit that is asked about.

    ``weights`` and ``gradients`` ``[head, query, key]``, the gradient that of a single logit.
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
    """Relevance of every input for the logit, a row for each last row; read the row that asks.

    ``R_ss += A R_ss``; of the decoder also ``R_sq += A R_sq``; of a cross block
    ``R_sq += norm(R_ss)^T A norm(R_qq)`` with ``norm(R) = rows of (R - I) divided by their sum,
    plus I``. All entries are at least 0; with a gradient of 0 everywhere each input's relevance is
    its own row alone. Chefer et al. 2021, equations 5 to 11.

    Raises:
        ValueError: no steps.
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
    """``norm(R)``: rows of ``R - I`` divided by their sum, plus I; a row of zeros stays one."""
    size = np.eye(len(relevance))
    rest = np.maximum(relevance - size, 0.0)  # a diagonal of 1 - 1e-7 is 1
    total = rest.sum(-1, keepdims=True)
    return np.asarray(rest / np.where(total > 0, total, 1.0) + size)
