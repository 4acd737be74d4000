"""All measures of many heads in many sentences of one length, in one go.

The same numbers as `tables.measured` gives sentence by sentence: heads of several layers and
sentences whose masks are the same stand side by side on the head axis, and what looks everywhere
alike is computed once for all that ask the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..head_measures.registry import MEASURES, HeadMeasure
from ..head_measures.rows import GRID, HeadRows, Tally
from .columns import COLUMNS, PLACES, Sums

BY_IDS = ("duplicate", "induction")  # ask which token stands where
APART = ("copying", "ov_copying")  # need what only whoever has the model computes


@dataclass(frozen=True, eq=False)
class Stacked:
    """Heads of some sentences of one length under one mask: see `HeadRows` for the parts.

    ``weights`` ``[sentence, head, query, key]`` float32, ``ids`` int ``[sentence, key]`` or None,
    ``values`` ``[sentence, head, key, any]``: vectors of the length that the values have through
    the output projection, or None.
    """

    weights: np.ndarray
    allowed: np.ndarray
    query_special: np.ndarray
    key_special: np.ndarray
    ids: np.ndarray | None
    cross: bool
    view: str
    values: np.ndarray | None = None

    @property
    def rows(self) -> HeadRows:
        """All sentences side by side on the head axis; no ids, as they differ."""
        sentences, heads = self.weights.shape[:2]
        values = self.values
        return HeadRows(
            self.weights.reshape(sentences * heads, *self.weights.shape[2:]),
            self.allowed,
            self.query_special,
            self.key_special,
            cross=self.cross,
            view=self.view,
            values=None if values is None else values.reshape(-1, *values.shape[2:]),
        )


def measure(stack: Stacked, generators: list[np.random.Generator]) -> Sums:
    """Every measure but `APART` of each sentence, own, by chance and under the null."""
    sentences, heads = stack.weights.shape[:2]
    sums = Sums.empty(sentences, heads)
    rows = stack.rows
    moved = _moved(stack, rows, generators)
    even, which = _even(rows)
    for one in MEASURES:
        if one.name in APART or one.name in BY_IDS:
            continue
        _put(sums.rows, sums.total, sums.squares, one, one.of(rows))
        if one.name == "null":
            _put(sums.chance_rows, sums.chance, None, one, _null_by_chance(one, rows))
            continue
        by_chance = one.of(even)
        _put(sums.chance_rows, sums.chance, None, one, Tally(*(part[which] for part in by_chance)))
        if one.shuffled == "rows":
            _put(sums.null_rows, sums.null, None, one, one.of(moved))
    if stack.ids is not None and not stack.cross:
        for number, generator in enumerate(generators):
            _by_ids(sums, stack, rows, number, generator)
    return sums


def _null_by_chance(one: HeadMeasure, rows: HeadRows) -> Tally:
    """What even heads with these values give; no work where there are none."""
    return one.of(rows if rows.values is None else rows.even())


def _even(rows: HeadRows) -> tuple[HeadRows, np.ndarray]:
    """Even heads for each different set of rows, and which of them is each head's."""
    kinds, which = np.unique(rows.heeded, axis=0, return_inverse=True)
    first = replace(rows, weights=rows.weights[: len(kinds)], values=None).even()
    return replace(first, kept=kinds), which.reshape(-1)


def _moved(stack: Stacked, rows: HeadRows, generators: list[np.random.Generator]) -> HeadRows:
    """The rows of words of each sentence in another order."""
    places = np.flatnonzero(rows.spoken & ~rows.query_special)
    order = np.tile(np.arange(len(rows.spoken)), (len(generators), 1))
    for row, generator in zip(order, generators, strict=True):
        row[places] = generator.permutation(places)
    weights = np.take_along_axis(stack.weights, order[:, None, :, None], axis=2)
    return replace(rows, weights=weights.reshape(rows.weights.shape), kept=rows.heeded, values=None)


def _by_ids(
    sums: Sums, stack: Stacked, rows: HeadRows, number: int, generator: np.random.Generator
) -> None:
    """Duplicate and induction of one sentence; nothing where no word comes twice."""
    assert stack.ids is not None
    ids = stack.ids[number]
    if len(np.unique(ids)) == len(ids):
        return
    heads = stack.weights.shape[1]
    own = replace(rows, weights=stack.weights[number], key_ids=ids, values=None)
    even, which = _even(own)
    moved = own.shuffled(generator, "ids")
    at = slice(number, number + 1)
    for one in MEASURES:
        if one.name not in BY_IDS:
            continue
        _put(sums.rows[at], sums.total[at], sums.squares[at], one, one.of(own))
        by_chance = Tally(*(part[which] for part in one.of(even)))
        _put(sums.chance_rows[at], sums.chance[at], None, one, by_chance)
        _put(sums.null_rows[at], sums.null[at], None, one, one.of(moved))
    assert heads == own.heads


def put_apart(
    sums: Sums, number: int, heads: slice, name: str, own: Tally, by_chance: Tally
) -> None:
    """One of `APART` of one block in one sentence, to where it belongs."""
    place = (slice(number, number + 1), heads, PLACES[name])
    sums.rows[place], sums.total[place], sums.squares[place] = _whole(own)
    sums.chance_rows[place], sums.chance[place] = _whole(by_chance)[:2]


def _whole(found: Tally) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, sum and squares as whole numbers, ``[1, head, 1]``."""
    rows, total, squares = (
        np.rint(part * unit).astype(np.int64)[None, :, None]
        for part, unit in ((found.rows, 1), (found.total, GRID), (found.squares, GRID))
    )
    return rows, total, squares


def _put(
    rows: np.ndarray,
    total: np.ndarray,
    squares: np.ndarray | None,
    one: HeadMeasure,
    found: Tally,
) -> None:
    """A tally ``[sentence * head]`` or ``[sentence * head, offset]`` into its columns."""
    at = PLACES[one.name]
    shape = (*rows.shape[:2], at.stop - at.start)
    assert rows.shape[2] == len(COLUMNS)
    rows[..., at] = np.broadcast_to(found.rows.reshape(*rows.shape[:2], -1), shape)
    total[..., at] = np.rint(found.total.reshape(*rows.shape[:2], -1) * GRID)
    if squares is not None:
        squares[..., at] = np.rint(found.squares.reshape(*rows.shape[:2], -1) * GRID)
