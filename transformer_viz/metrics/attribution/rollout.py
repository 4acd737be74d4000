"""R1: attention multiplied through the layers, with the residual stream beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Step:
    """One attention block as shares: where each row has what it is now from.

    ``keys`` ``[query, key]`` come from the keys, ``own`` ``[query]`` from the row itself by the
    residual stream. Rows of both together sum to 1 (to less where a sink took a part).
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
    """Shares of the inputs in what each last row holds, float64.

    ``source`` ``[row, source token]``; ``target`` ``[row, target token]`` where there is a decoder
    beside an encoder, else None.
    """

    source: np.ndarray
    target: np.ndarray | None


def halved(stack: str, block: str, weights: np.ndarray) -> Step:
    """The step of Abnar and Zuidema (2020): half the heads' mean, half the residual stream.

    Args:
        weights: ``[head, query, key]``; rows that are not numbers count as empty.
    """
    mean = np.nan_to_num(np.asarray(weights, np.float64)).mean(0)
    return Step(stack, block, mean / 2, np.full(len(mean), 0.5))


def rolled(steps: Sequence[Step]) -> Rolled:
    """All steps of a run multiplied, in the order in which they ran.

    A stack alone gives ``T_L ... T_1`` with ``T = own + keys``. With two stacks the decoder is a
    state ``[D | S]`` of shares in target and source, ``[I | 0]`` at first; a self block makes
    ``D = T D, S = T S``, a cross block ``D = own D, S = own S + keys R_enc``. Rows of ``[D | S]``
    sum to 1 where those of the steps do. The state form for two stacks is ours; Abnar and Zuidema
    (2020, section 4) define one stack.

    Raises:
        ValueError: no steps, or layers whose tokens are not the same.
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
        if encoded is None:  # memory that no attention made: its tokens are the source
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
