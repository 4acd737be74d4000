"""Layers of one map from tuples, stacked arrays or batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .numbers import Numbers, depth, is_array, numbers

EQUAL = 1e-6  # relative tolerance for equal weights of a row

NOTHING = (
    "{what} holds no weights: fused attention (sdpa, flash) returns none. Load the model with "
    'attn_implementation="eager" and call it with output_attentions=True.'
)


class KeywordNeededError(ValueError):
    """Weights that need a keyword of `tv.from_attentions`, named in the message."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Weights of one layer ``[head, row, column]``, and its number among the given layers.

    Attributes:
        equal: Rows with equal weights in all columns, as from a fully masked softmax.
        unset: Rows that were NaN, now zeros.
        cut: Rows that lost weight with columns of a static cache that hold no token.
        window: Number of keys that a sliding cache kept for a row.
    """

    weights: Numbers
    number: int
    equal: tuple[int, ...] = ()
    unset: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    window: int | None = None


def is_steps(thing: Any) -> bool:
    """Return True for the steps of generate(): tuples of tuples of arrays."""
    if is_array(thing) or not isinstance(thing, list | tuple):
        return False
    inner = next((part for part in thing if part is not None), None)
    if is_array(inner) or not isinstance(inner, list | tuple):
        return False
    found = next((part for part in inner if part is not None), None)
    return is_array(found) and len(getattr(found, "shape", ())) == 4


def layers_of(thing: Any, what: str, batch: int | None) -> list[Layer]:
    """Return the layers of a map.

    Args:
        thing: A list or tuple with ``[head, row, column]`` or ``[batch, head, row, column]`` per
            layer (None for a layer without weights). Or one array ``[layer, head, row, column]`` or
            ``[layer, batch, head, row, column]``; three axes are one layer.
        what: Name of the argument, for errors.
        batch: Index of a sequence in a batch; None if there is only one.

    Raises:
        ValueError: No weights, other axes, or a batch of several. The message names the remedy.
    """
    if is_array(thing) or not isinstance(thing, list | tuple):
        return _stack(thing, what, batch)
    if depth(thing) == 3 and _bare(thing):
        return [_layer(numbers(thing, what), 0)]
    found = []
    for number, part in enumerate(thing):
        if part is None or (isinstance(part, list | tuple) and not part):
            continue
        said = f"{what}, layer {number}"
        found.append(_layer(_one(numbers(part, said), said, batch), number))
    if not found:
        raise ValueError(NOTHING.format(what=what))
    return found


def _bare(thing: Any) -> bool:
    """Return True if lists hold numbers and no arrays."""
    while isinstance(thing, list | tuple):
        thing = next((part for part in thing if part is not None), None)
    return thing is not None and not is_array(thing) and depth(thing) == 0


def _stack(thing: Any, what: str, batch: int | None) -> list[Layer]:
    whole = numbers(thing, what)
    axes = whole.values.ndim
    if axes == 3:
        return [_layer(_one(whole, what, batch), 0)]
    if axes not in (4, 5):
        raise ValueError(
            f"{what} has the shape {list(whole.values.shape)}; expected [layer, head, row, column] "
            "or [layer, batch, head, row, column], or a list with an array a layer."
        )
    return [
        _layer(
            _one(with_values(whole, part), f"{what}, layer {number}", batch if axes == 5 else None),
            number,
        )
        for number, part in enumerate(whole.values)
    ]


def _layer(weights: Numbers, number: int) -> Layer:
    """Return a layer with its rows of equal weights, and NaN rows set to zero."""
    lost = np.isnan(weights.values).all(axis=(0, 2))
    if lost.any():
        weights = with_values(weights, np.where(lost[:, None], 0, weights.values))
    rows = tuple(map(int, np.flatnonzero(lost)))
    return Layer(weights, number, equal_rows(weights.values), rows)


def equal_rows(weights: np.ndarray) -> tuple[int, ...]:
    """Return the rows with equal weights in all columns, as from a fully masked softmax.

    Args:
        weights: ``[head, row, column]``. A single column has no such rows.
    """
    most, least = weights.max(-1), weights.min(-1)
    same = ((most > 0) & (most - least <= EQUAL * most)).all(axis=0)
    return tuple(map(int, np.flatnonzero(same))) if weights.shape[-1] > 1 else ()


def cut_unused(layer: Layer) -> Layer:
    """Return a self-attention layer without the empty columns of a static cache.

    These are columns after its rows that have weight only in rows of equal weights.
    """
    weights = layer.weights.values
    rows = weights.shape[1]
    if weights.shape[2] <= rows or len(layer.equal) == rows:
        return layer
    if np.delete(weights, layer.equal, axis=1)[:, :, rows:].any():
        return layer
    whole = with_values(layer.weights, weights[:, :, :rows])
    return Layer(whole, layer.number, layer.equal, layer.unset, layer.equal)


def with_values(whole: Numbers, values: np.ndarray) -> Numbers:
    """Return other values with the dtype and tolerance of the same array."""
    return Numbers(values, whole.dtype, whole.tolerance)


def _one(layer: Numbers, what: str, batch: int | None) -> Numbers:
    """Return one sequence of a layer, ``[head, row, column]``."""
    values = layer.values
    if values.ndim == 4:
        values = values[chosen(len(values), what, batch)]
    if values.ndim != 3:
        raise ValueError(
            f"{what} has the shape {list(layer.values.shape)}; expected [head, row, column] or "
            "[batch, head, row, column]."
        )
    if 0 in values.shape:
        raise ValueError(f"{what} is empty: its shape is {list(values.shape)}.")
    return with_values(layer, values)


def chosen(size: int, what: str, batch: int | None) -> int:
    """Return the index of the requested sequence in a batch.

    Raises:
        ValueError: A batch of several without ``batch`` (`KeywordNeededError`), or an invalid
            index.
    """
    if batch is None:
        if size != 1:
            raise KeywordNeededError(
                f"{what} is a batch of {size} sequences, and a trace shows one. Say which with "
                f"batch=0 to batch={size - 1}, and give the tokens of that sequence."
            )
        return 0
    if not 0 <= batch < size:
        raise ValueError(f"{what} is a batch of {size}, so batch= is 0 to {size - 1}; got {batch}.")
    return batch
