"""Join the steps of generate() to whole maps, also for caches wider or narrower than the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .layers import Layer, layers_of, with_values
from .numbers import Numbers
from .rows import reach

NO_WINDOW = (
    "so this is no sliding window, and the tokens of its columns are unknown. Call generate() with "
    "use_cache=False: then each step weighs all tokens"
)


@dataclass(frozen=True, eq=False)
class Step:
    """New rows of a step.

    Attributes:
        values: ``[head, row, column]``.
        end: Number of tokens read after the step.
        equal: Rows with equal weights in all columns.
    """

    values: np.ndarray
    end: int
    equal: tuple[int, ...]

    @property
    def wide(self) -> int:
        """Number of columns."""
        return int(self.values.shape[2])

    @property
    def narrow(self) -> bool:
        """True if the cache held fewer than all tokens."""
        return self.wide < self.end

    @property
    def window(self) -> int:
        """Number of tokens that the first new row has columns for, its own included."""
        return min(self.wide, self.end) - int(self.values.shape[1]) + 1


def joined(
    steps: Sequence[Any], what: str, batch: int | None, beams: Sequence[int] | None = None
) -> list[Layer]:
    """Return whole maps from the steps of generate(), with the rows of all steps in order.

    A step's new rows are its last ones, and later columns have weight 0. A step of a static cache
    has a column for each slot of the cache: empty slots are removed. A step of a sliding cache has
    columns for the last tokens only, and its rows are placed there.

    Args:
        steps: For each step a tuple with ``[batch, head, row, column]`` per layer.
        what: Name of the argument, for errors.
        batch: Index of the sequence.
        beams: In a beam search, the batch row of this sequence at each step.

    Raises:
        ValueError: As in `layers_of`; steps that lack layers or rows, or columns of unknown tokens.
    """
    if beams is not None:
        steps = steps[: len(beams)]
    by_step = [
        layers_of(step, f"{what}, step {number}", batch if beams is None else beams[number])
        for number, step in enumerate(steps)
    ]
    for number, layers in enumerate(by_step):
        if (came := [one.number for one in layers]) != [one.number for one in by_step[0]]:
            raise ValueError(
                f"{what}, step {number}, has weights of the layers {came}, unlike step 0; a whole "
                "map needs each layer in each step. Compute it in one pass: model(sequences, "
                "output_attentions=True)."
            )
    below = _below if what == "cross" else _placed
    return [
        below([step[place] for step in by_step], f"{what}, layer {first.number}")
        for place, first in enumerate(by_step[0])
    ]


def _new_rows(layers: Sequence[Layer], cross: bool) -> list[Step]:
    """Return the new rows of each step: without a cache a step computes earlier rows again."""
    steps, rows = [], 0
    for layer in layers:
        _, high, wide = layer.weights.values.shape
        again = rows if high > rows and (cross or high == wide) else 0
        new = layer.weights.values[:, again:]
        rows += new.shape[1]
        equal = tuple(row - again for row in layer.equal if row >= again)
        steps.append(Step(new, rows, equal))
    return steps


def _unset(layers: Sequence[Layer], steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the rows of the whole map that were NaN."""
    return tuple(
        row + step.end - layer.weights.values.shape[1]
        for layer, step in zip(layers, steps, strict=True)
        for row in layer.unset
        if row >= layer.weights.values.shape[1] - step.values.shape[1]
    )


def _below(layers: Sequence[Layer], what: str) -> Layer:
    """Return the concatenated rows of steps over the same columns, as in cross-attention."""
    steps = _new_rows(layers, cross=True)
    wide = max(step.wide for step in steps)
    parts = [np.pad(one.values, ((0, 0), (0, 0), (0, wide - one.wide))) for one in steps]
    whole = with_values(layers[0].weights, np.concatenate(parts, axis=1))
    return Layer(whole, layers[0].number, unset=_unset(layers, steps))


def _placed(layers: Sequence[Layer], what: str) -> Layer:
    """Return the rows of all steps, with each weight at the token of its key.

    Raises:
        ValueError: Earlier rows are missing, or the tokens of the columns are unknown.
    """
    steps = _new_rows(layers, cross=False)
    first, later = steps[0], steps[1:]
    _require_start(first, what)
    _require_own_row(first, later, what)
    ahead = _window_ahead(first, later)
    window = ahead or _window(first, later, what)
    count = steps[-1].end
    whole = np.zeros((len(first.values), count, count), first.values.dtype)
    equal: list[int] = []
    cut: list[int] = []
    for number, step in enumerate(steps):
        rows = step.values.shape[1]
        used = min(step.wide, step.end)
        if number and ahead is not None:
            used = _span(step)[1]
        known = [row for row in range(rows) if row not in step.equal]
        if step.values[:, known, used:].any():
            raise ValueError(
                f"{what}: step {number} weighs {step.wide} tokens after {step.end} were read. "
                "Give all steps that generate() returned, from the first on."
            )
        top = step.end - rows
        start = step.end - used if step.narrow or (number and ahead is not None) else 0
        whole[:, top : step.end, start : start + used] = step.values[:, :, :used]
        # the last row of a step sees all of its columns, unless some hold no token
        equal += [top + row for row in step.equal if row < rows - 1 or used < step.wide]
        cut += [top + row for row in step.equal if used < step.wide]
    return Layer(
        with_values(layers[0].weights, whole),
        layers[0].number,
        tuple(equal),
        _unset(layers, steps),
        tuple(cut),
        window,
    )


def _require_start(first: Step, what: str) -> None:
    """Raise if the first step does not begin with the first token.

    Raises:
        ValueError: The message gives the numbers of rows and columns.
    """
    rows = first.values.shape[1]
    if first.wide < rows:
        raise ValueError(
            f"{what}: step 0 has {rows} rows and {first.wide} columns, so tokens of its columns "
            "are unknown. Give the steps as generate() returned them."
        )
    known = [row for row in range(rows) if row not in first.equal]
    if first.values[:, known, rows:].any():
        raise ValueError(
            f"{what}: step 0 reads {rows} tokens and weighs {first.wide}, so a cache held earlier "
            "tokens, whose rows were not returned. Give all steps, of a generate() without "
            "past_key_values= and prefill_chunk_size=."
        )


def _require_own_row(first: Step, later: Sequence[Step], what: str) -> None:
    """Raise if a row of the prompt replaces the row of the first new token.

    transformers (up to 5.23 at least) returns it if tokens guessed from the prompt were right.

    Raises:
        ValueError: The message explains how to get the rows.
    """
    rows = first.values.shape[1]
    if rows < 2 or not later or not first.values[:, range(rows), range(rows)].any(axis=0).all():
        return  # if rows do not see their own token, two rows may be equal by chance
    row = later[0].values[:, 0]
    if np.array_equal(row[:, :1], first.values[:, 0, :1]) and not row[:, 1:].any():
        raise ValueError(
            f"{what}: step 1 repeats row 0 of the prompt, as generate() returns it where guessed "
            "tokens were right. Call it without prompt_lookup_num_tokens= and assistant_model=, or "
            "give one pass: model(sequences, output_attentions=True)."
        )


def _window(first: Step, later: Sequence[Step], what: str) -> int | None:
    """Return the keys of a row in the steps of a sliding cache; None if each step has all tokens.

    Raises:
        ValueError: Steps are narrower, but do not form a window.
    """
    problem = _no_window(first, later)
    if problem:
        raise ValueError(f"{what}: {problem}, {NO_WINDOW}.")
    return next((step.window for step in later if step.narrow), None)


def _no_window(first: Step, later: Sequence[Step]) -> str:
    """Return the reason why narrower steps do not form one window; empty if they do."""
    narrow = [(number, step) for number, step in enumerate(later, 1) if step.narrow]
    if not narrow:
        return ""
    number, step = narrow[0]
    came = f"step {number} weighs {step.wide} of {step.end} tokens, and"
    for other, one in enumerate(later, 1):
        if one.window > step.window or (one.narrow and one.window < step.window):
            return f"{came} step {other} {one.wide} of {one.end}"
    far = _reach(first)
    if far > step.window:
        return f"{came} a row of the prompt weighs a token {far - 1} back"
    return ""


def _reach(first: Step) -> int:
    """Return the largest number of keys that a row of the prompt looks back over."""
    rows = first.values.shape[1]
    return reach(Layer(Numbers(first.values[:, :, :rows], "", 0), 0, first.equal))


def _span(step: Step) -> tuple[int, int]:
    """Return the first column with weight in a step's last row, and the end column."""
    seen = np.flatnonzero(step.values[:, -1].any(axis=0))
    return (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, 0)


def _window_ahead(first: Step, later: Sequence[Step]) -> int | None:
    """Return the window of steps cut from passes that also read guessed tokens, else None.

    Assisted generation reads several tokens per pass and keeps those that were guessed right. Each
    of its rows has the columns of the whole pass, so its own key is not the last one. Such steps
    are recognised if each row has weight in exactly the keys of one window.
    """
    spans = [_span(step) for step in later]
    unused = sum(
        min(step.wide, step.end) - end for step, (_, end) in zip(later, spans, strict=True)
    )
    if not unused or any(step.values.shape[1] > 1 for step in later):
        return None
    window = max(end - begin for begin, end in spans)
    for step, (begin, end) in zip(later, spans, strict=True):
        filled = step.values[:, -1, begin:end].any(axis=0).all()
        if not filled or end - begin != min(window, step.end):
            return None
    # a single 0 at the own key may also be a weight that underflowed
    sure = unused > 1 or first.end > window or _no_window(first, later)
    return window if sure and 1 < window >= _reach(first) else None
