"""R1: attention rollout, i.e. attention and residual stream multiplied through the layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Step:
    """Attention block as shares of each row's origin.

    ``keys`` ``[query, key]`` are the shares of the keys, ``own`` ``[query]`` that of the row itself
    through the residual stream. Together, rows sum to 1 (less with a sink).
    """

    stack: str
    block: str
    keys: np.ndarray
    own: np.ndarray

    def __post_init__(self) -> None:
        rows, columns = self.keys.shape
        if self.block == "self" and rows != columns:
            raise ValueError(
                f"A self-attention of the {self.stack} has {rows} rows and {columns} keys, so its "
                "layers cannot be multiplied (it pools tokens, or reads keys that are no tokens). "
                "The weights of each layer can be had: method='weights'."
            )


@dataclass(frozen=True, eq=False)
class Rolled:
    """Shares of the inputs in each last row, float64.

    ``source`` is ``[row, source token]``; ``target`` ``[row, target token]`` for a decoder beside
    an encoder, else None.
    """

    source: np.ndarray
    target: np.ndarray | None


def halved(stack: str, block: str, weights: np.ndarray) -> Step:
    """Return the step of Abnar and Zuidema (2020): half the heads' mean, half the residual stream.

    Args:
        stack: Stack of the block.
        block: Kind of the block.
        weights: ``[head, query, key]``; NaN counts as 0.
    """
    mean = np.nan_to_num(np.asarray(weights, np.float64)).mean(0)
    return Step(stack, block, mean / 2, np.full(len(mean), 0.5))


def rolled(steps: Sequence[Step]) -> Rolled:
    """Multiply all steps of a run, in execution order.

    A single stack gives ``T_L ... T_1`` with ``T = own + keys``. With two stacks the decoder is a
    state ``[D | S]`` of shares in target and source, ``[I | 0]`` at first. A self block gives ``D =
    T D, S = T S``, a cross block ``D = own D, S = own S + keys R_enc``. Rows of ``[D | S]`` sum to
    1 where those of the steps do. The form for two stacks is ours; Abnar and Zuidema (2020, section
    4) define one stack.

    Raises:
        ValueError: No steps, or layers with different tokens.
    """
    if not steps:
        raise ValueError("No attention was seen, so there is nothing to multiply.")
    crossing = any(step.block == "cross" for step in steps)
    lone = [step for step in steps if step.stack == "encoder"] if crossing else list(steps)
    encoded = None
    for step in lone:
        encoded = _through(step, np.eye(len(step.keys)) if encoded is None else encoded)
    if not crossing:
        assert encoded is not None
        return Rolled(encoded, None)
    target: np.ndarray | None = None
    source: np.ndarray | None = None
    for step in (step for step in steps if step.stack == "decoder"):
        if encoded is None:  # memory without attention: its tokens are the source
            encoded = np.eye(next(s.keys.shape[1] for s in steps if s.block == "cross"))
        if target is None or source is None:
            target, source = np.eye(len(step.keys)), np.zeros((len(step.keys), encoded.shape[1]))
        if step.block == "cross":
            _same(step.keys.shape, (len(target), len(encoded)))
            own = step.own[:, None]
            target, source = own * target, own * source + step.keys @ encoded
        else:
            target, source = _through(step, target), _through(step, source)
    assert source is not None
    return Rolled(source, target)


def _through(step: Step, state: np.ndarray) -> np.ndarray:
    _same((step.keys.shape[1],), (len(state),))
    return step.own[:, None] * state + step.keys @ state


def _same(got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if got != wanted:
        raise ValueError(
            f"Layers of this model have {got} and {wanted} tokens, so they cannot be multiplied; "
            "the weights of each layer can be had: method='weights'."
        )
