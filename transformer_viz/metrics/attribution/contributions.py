"""R2: what each key really gave to a row, as vectors, with residual stream, norm and biases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .rollout import Step

BLOCK = 2**20  # numbers of a block's vectors that are made together


@dataclass(frozen=True, eq=False)
class Scaling:
    """A norm whose scale is held at what it was in the run, which makes it a linear map.

    ``scale`` ``[row]`` is the run's own factor, ``gain`` and ``shift`` ``[d_model]``; ``centred``
    where the mean over features is taken away first.
    """

    scale: np.ndarray
    gain: np.ndarray
    shift: np.ndarray
    centred: bool

    def of(self, part: np.ndarray, row: int) -> np.ndarray:
        """A part ``[..., d_model]`` of what enters at a row, as a part of what leaves."""
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
    """The frozen form of a norm from what entered and what it made, ``[row, d_model]`` each.

    The factor of each row is fitted, so that it holds for whatever the norm adds to the variance.
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
    """One attention block of one run, taken apart; float64.

    ``weights`` ``[head, query, key]``; ``parts`` ``[head, key, d_model]``: what each key gives
    through values and output projection, biases left out; ``constant`` ``[query, d_model]``: those
    biases; ``output`` ``[query, d_model]``: what the projection gave in the run; ``stream`` what
    it was added to (None where no residual sum was seen) and ``total`` what the block made of both;
    ``inner`` a norm between projection and sum, ``outer`` one after the sum.
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
    """How much of a block's rows comes from where, as Euclidean lengths of vectors.

    ``keys`` ``[query, key]`` (of a self-attention without the residual part); ``own`` ``[query]``
    the residual stream; for a self-attention ``keys`` of a row's own token and ``own`` are one
    vector, whose length stands in ``keys``, and ``own`` is 0. ``bias`` ``[query]``; ``mixing``
    ``[query]``: how much of a row comes from other tokens, 0..1. ``error`` is the largest
    difference between the sum of all vectors and what the block gave, relative to the largest of
    its numbers.
    """

    keys: np.ndarray
    own: np.ndarray
    bias: np.ndarray
    mixing: np.ndarray
    error: float


def contributions(block: AttentionBlock) -> Contributions:
    """The vectors ``c_ij = sum_h A_h[i,j] f_h(x_j) + [i = j] x_i`` of a block, as lengths.

    ``f_h(x_j) = x_j W_V W_O``. Biases form a column of their own, since rows of weights sum to 1:
    a bias moved from the values into the output projection then changes nothing here. Norms are
    linear once their scale is held. Heads are summed before the length is taken. Kobayashi et al.
    2020 (section 3) and 2021 (section 3), where b_V stands inside f.
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
    """Yield for each row the vectors ``[key, d_model]`` of all heads, weighed and summed.

    Several rows are multiplied together, so that the parts are read once for them.
    """
    by_key = parts.transpose(1, 0, 2)
    step = max(1, BLOCK // max(1, parts[0].size))
    for first in range(0, weights.shape[1], step):
        some = np.ascontiguousarray(weights[:, first : first + step].transpose(2, 1, 0))
        made = some @ by_key
        yield from made.transpose(1, 0, 2)


def shares(stack: str, block: str, found: Contributions) -> Step:
    """Lengths as shares of each row, biases left out: a step that can be multiplied like R1's."""
    whole = found.keys.sum(-1) + found.own
    divisor = np.where(whole > 0, whole, 1.0)
    own = np.where(whole > 0, found.own / divisor, 1.0)
    return Step(stack, block, found.keys / divisor[:, None], own)
