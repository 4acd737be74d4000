"""R2: contribution of each key to a row as vectors, with residual stream, norm and biases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .rollout import Step

BLOCK = 2**20  # numbers of a block's vectors computed at a time


@dataclass(frozen=True, eq=False)
class Scaling:
    """Norm with its scale held at the run's value, which makes it linear.

    ``scale`` ``[row]`` is the run's factor, ``gain`` and ``shift`` are ``[d_model]``; ``centred``
    is True if the mean over features is subtracted first.
    """

    scale: np.ndarray
    gain: np.ndarray
    shift: np.ndarray
    centred: bool

    def of(self, part: np.ndarray, row: int) -> np.ndarray:
        """Return the output part of an input part ``[..., d_model]`` at a row."""
        if self.centred:
            part = part - part.mean(-1, keepdims=True)
        return np.asarray(part * self.gain * self.scale[row])


def scaling(
    entered: np.ndarray,
    made: np.ndarray,
    gain: np.ndarray | None,
    bias: np.ndarray | None,
    centred: bool,
) -> Scaling:
    """Return the linear form of a norm from its input and output, ``[row, d_model]`` each.

    The factor of each row is fitted, so it includes the norm's epsilon.
    """
    width = entered.shape[-1]
    gain = np.ones(width) if gain is None else np.asarray(gain, np.float64)
    shift = np.zeros(width) if bias is None else np.asarray(bias, np.float64)
    unit = (entered - entered.mean(-1, keepdims=True) if centred else entered) * gain
    size = (unit * unit).sum(-1)
    factor = ((made - shift) * unit).sum(-1) / np.where(size > 0, size, 1.0)
    return Scaling(factor, gain, shift, centred)


@dataclass(frozen=True, eq=False)
class AttentionBlock:
    """Decomposed attention block of one run; float64.

    Attributes:
        stack: Stack.
        block: Block.
        layer: Layer.
        weights: ``[head, query, key]``.
        parts: ``[head, key, d_model]``, each key's output through values and output projection,
            without biases.
        constant: ``[query, d_model]``, the biases.
        output: ``[query, d_model]``, output of the projection in the run.
        stream: Residual stream it was added to; None without a residual sum.
        total: Result of the block.
        inner: Norm between projection and sum.
        outer: Norm after the sum.
    """

    stack: str
    block: str
    layer: int
    weights: np.ndarray
    parts: np.ndarray
    constant: np.ndarray
    output: np.ndarray
    stream: np.ndarray | None
    total: np.ndarray | None
    inner: Scaling | None = None
    outer: Scaling | None = None


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions to a block's rows, as Euclidean lengths of vectors.

    Attributes:
        keys: ``[query, key]``. For self-attention, a row's own token includes the residual stream.
        own: ``[query]``, the residual stream; 0 for self-attention.
        bias: ``[query]``.
        mixing: ``[query]``, share of a row from other tokens, 0..1.
        error: Largest difference between the sum of all vectors and the block's output, relative to
            its largest number.
    """

    keys: np.ndarray
    own: np.ndarray
    bias: np.ndarray
    mixing: np.ndarray
    error: float


def contributions(block: AttentionBlock) -> Contributions:
    """Compute the vectors ``c_ij = sum_h A_h[i,j] f_h(x_j) + [i = j] x_i`` of a block, as lengths.

    ``f_h(x_j) = x_j W_V W_O``. Biases are a separate column, since rows of weights sum to 1: a bias
    moved from the values into the output projection then changes nothing. Norms are linear once
    their scale is held. Heads are summed before the length is taken. Kobayashi et al. 2020 (section
    3) and 2021 (section 3), where b_V is inside f.
    """
    rows, columns = block.weights.shape[1:]
    same = block.block == "self"
    keys, own, bias, mixing = np.zeros((rows, columns)), *np.zeros((3, rows))
    made = np.zeros_like(block.output)
    for row, vectors in enumerate(_summed_heads(block.weights, block.parts)):
        constant = block.constant[row]
        if block.inner is not None:
            vectors = block.inner.of(vectors, row)
            constant = block.inner.of(constant, row) + block.inner.shift
        stream = np.zeros_like(constant) if block.stream is None else block.stream[row]
        if block.outer is not None:
            vectors, stream = block.outer.of(vectors, row), block.outer.of(stream, row)
            constant = block.outer.of(constant, row) + block.outer.shift
        made[row] = vectors.sum(0) + constant + stream
        if same:
            vectors[row] += stream
        keys[row] = np.linalg.norm(vectors, axis=-1)
        own[row] = 0.0 if same else np.linalg.norm(stream)
        bias[row] = np.linalg.norm(constant)
        others = np.linalg.norm(np.delete(vectors, row, 0).sum(0) if same else vectors.sum(0))
        kept = keys[row, row] if same else own[row]
        mixing[row] = others / (others + kept) if others + kept else np.nan
    wanted = block.output if block.total is None else block.total
    scale = np.abs(wanted).max()
    error = float(np.abs(made - wanted).max() / (scale if scale > 0 else 1.0))
    return Contributions(keys, own, bias, mixing, error)


def _summed_heads(weights: np.ndarray, parts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield each row's vectors ``[key, d_model]``, weighted and summed over heads.

    Several rows are multiplied together, so that the parts are read once for them.
    """
    by_key = parts.transpose(1, 0, 2)
    step = max(1, BLOCK // max(1, parts[0].size))
    for first in range(0, weights.shape[1], step):
        some = np.ascontiguousarray(weights[:, first : first + step].transpose(2, 1, 0))
        made = some @ by_key
        yield from made.transpose(1, 0, 2)


def shares(stack: str, block: str, found: Contributions) -> Step:
    """Return lengths as shares of each row, without biases: a step that multiplies like R1's."""
    whole = found.keys.sum(-1) + found.own
    divisor = np.where(whole > 0, whole, 1.0)
    own = np.where(whole > 0, found.own / divisor, 1.0)
    return Step(stack, block, found.keys / divisor[:, None], own)
