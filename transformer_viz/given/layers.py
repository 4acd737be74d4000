"""The layers of one map, however they came: tuples, stacks, batches, the steps of generate()."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .numbers import Numbers, depth, is_array, numbers

NOTHING = (
    "{what} holds no weights: fused attention (sdpa, flash) returns none. Load the model with "
    'attn_implementation="eager" and call it with output_attentions=True.'
)


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer's weights ``[head, row, column]``, and its number among those that were given."""

    weights: Numbers
    number: int


def is_steps(thing: Any) -> bool:
    """Whether these are the steps of generate(): tuples of tuples of arrays."""
    if is_array(thing) or not isinstance(thing, list | tuple):
        return False
    inner = next((part for part in thing if part is not None), None)
    if is_array(inner) or not isinstance(inner, list | tuple):
        return False
    found = next((part for part in inner if part is not None), None)
    return is_array(found) and len(getattr(found, "shape", ())) == 4


def layers_of(thing: Any, what: str, batch: int | None) -> list[Layer]:
    """The layers of a map.

    Args:
        thing: a list or tuple with ``[head, row, column]`` or ``[batch, head, row, column]`` a
            layer (None for a layer without weights), or all of them in one array ``[layer, head,
            row, column]`` or ``[layer, batch, head, row, column]``; three axes are one layer.
        what: whose they are, for what is said of wrong ones.
        batch: which sequence of a batch; None where there is only one.

    Raises:
        ValueError: no weights, other axes, or a batch of several; says what to do.
    """
    if is_array(thing) or not isinstance(thing, list | tuple):
        return _stack(thing, what, batch)
    if depth(thing) == 3 and _bare(thing):
        return [Layer(numbers(thing, what), 0)]
    found = []
    for number, part in enumerate(thing):
        if part is None or (isinstance(part, list | tuple) and not part):
            continue
        said = f"{what}, layer {number}"
        found.append(Layer(_one(numbers(part, said), said, batch), number))
    if not found:
        raise ValueError(NOTHING.format(what=what))
    return found


def _bare(thing: Any) -> bool:
    """Whether lists hold numbers and no arrays."""
    while isinstance(thing, list | tuple):
        thing = next((part for part in thing if part is not None), None)
    return thing is not None and not is_array(thing) and depth(thing) == 0


def _stack(thing: Any, what: str, batch: int | None) -> list[Layer]:
    whole = numbers(thing, what)
    axes = whole.values.ndim
    if axes == 3:
        return [Layer(_one(whole, what, batch), 0)]
    if axes not in (4, 5):
        raise ValueError(
            f"{what} has the shape {list(whole.values.shape)}; expected [layer, head, row, column] "
            "or [layer, batch, head, row, column], or a list with an array a layer."
        )
    return [
        Layer(
            _one(_with(whole, part), f"{what}, layer {number}", batch if axes == 5 else None),
            number,
        )
        for number, part in enumerate(whole.values)
    ]


def _with(whole: Numbers, values: np.ndarray) -> Numbers:
    return Numbers(values, whole.dtype, whole.tolerance)


def _one(layer: Numbers, what: str, batch: int | None) -> Numbers:
    """One sequence of a layer, ``[head, row, column]``."""
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
    return _with(layer, values)


def chosen(size: int, what: str, batch: int | None) -> int:
    """Which sequence of a batch is meant.

    Raises:
        ValueError: several and none was named, or one that is not there.
    """
    if batch is None:
        if size != 1:
            raise ValueError(
                f"{what} is a batch of {size} sequences, and a trace shows one. Say which with "
                f"batch=0 to batch={size - 1}, and give the tokens of that sequence."
            )
        return 0
    if not 0 <= batch < size:
        raise ValueError(f"{what} is a batch of {size}, so batch= is 0 to {size - 1}; got {batch}.")
    return batch


def joined(
    steps: Sequence[Any], what: str, batch: int | None, beams: Sequence[int] | None = None
) -> list[Layer]:
    """The steps of generate() as whole maps: the rows of each step below those before.

    A step's new rows are its last ones; columns that came later weigh nothing. A static cache
    makes all columns at once: those that no row could have read are cut off.

    Args:
        steps: for each step a tuple with ``[batch, head, row, column]`` a layer.
        what: whose they are.
        batch: which sequence.
        beams: of a beam search the row of the batch that this sequence went through, by step.

    Raises:
        ValueError: as of `layers_of`.
    """
    if beams is not None:
        steps = steps[: len(beams)]
    by_step = [
        layers_of(step, f"{what}, step {number}", batch if beams is None else beams[number])
        for number, step in enumerate(steps)
    ]
    return [
        Layer(_below([step[place].weights for step in by_step], what), first.number)
        for place, first in enumerate(by_step[0])
    ]


def _below(steps: Sequence[Numbers], what: str) -> Numbers:
    cross = what == "cross"
    parts: list[np.ndarray] = []
    rows = 0
    for step in steps:
        # Without a cache a step computes the rows before it again.
        again = rows if step.values.shape[1] > rows else 0
        fresh = step.values[:, again:]
        parts.append(fresh)
        rows += fresh.shape[1]
    wide = max(part.shape[2] for part in parts)
    widened = [np.pad(part, ((0, 0), (0, 0), (0, wide - part.shape[2]))) for part in parts]
    whole = np.concatenate(widened, axis=1)
    if not cross and whole.shape[2] > rows and not whole[:, :, rows:].any():
        whole = whole[:, :, :rows]
    return _with(steps[0], whole)
