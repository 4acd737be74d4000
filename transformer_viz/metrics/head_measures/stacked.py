"""All measures of many heads in many sentences of one length, computed together.

Heads of several layers and sentences with one mask are concatenated on the last axis
(`side_by_side`); a trace is a stack of one sentence. The uniform head (chance) is computed once and
counted over the rows of each head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .columns import COLUMNS, PLACES, Sums
from .recurring import by_ids
from .row_measures import (
    ASKED,
    NEAR,
    VIEWED,
    ascending,
    asked_rows,
    asked_values,
    covering,
    diagonal,
    viewed_rows,
    viewed_values,
)
from .rows import GRID, HeadRows, Tally
from .side_by_side import Facts, Looks, orders
from .values import SINK


@dataclass(frozen=True, eq=False)
class Stacked:
    """Heads of some sentences of one length under one mask: see `HeadRows` for the parts.

    ``weights`` are ``[sentence, head, query, key]`` float32, ``ids`` int ``[sentence, key]`` or
    None. ``values`` returns ``[sentence * head, key, any]``: vectors with the lengths of the values
    after the output projection; None if unknown.
    """

    weights: np.ndarray
    allowed: np.ndarray
    query_special: np.ndarray
    key_special: np.ndarray
    ids: np.ndarray | None
    cross: bool
    view: str
    values: Callable[[], np.ndarray] | None = None
    real: np.ndarray | None = None  #: bool ``[query]``: no padding

    @classmethod
    def of(cls, rows: HeadRows) -> Stacked:
        """Return the stack of one block in one sentence."""
        values = rows.values
        return cls(
            rows.weights[None],
            *(rows.allowed, rows.query_special, rows.key_special),
            None if rows.key_ids is None else rows.key_ids[None],
            *(rows.cross, rows.view),
            None if values is None else lambda: values,
            rows.real,
        )

    @cached_property
    def facts(self) -> Facts:
        """Data shared by all heads."""
        allowed = self.allowed
        none = np.zeros((1, *allowed.shape), np.float32)
        special = (self.query_special, self.key_special)
        return Facts(
            HeadRows(none, allowed, *special, cross=self.cross, view=self.view, real=self.real)
        )

    @cached_property
    def own(self) -> Looks:
        """Heads of all sentences, by sentence."""
        sentences, heads, queries, keys = self.weights.shape
        flat = self.weights.reshape(sentences * heads, queries * keys)
        raw = flat.T.astype(np.float64, order="C").reshape(queries, keys, -1)
        if np.isfinite(raw.sum()):
            return Looks(self.facts, raw)
        finite: np.ndarray = np.all(np.isfinite(raw), axis=1)
        return Looks(self.facts, np.where(finite[:, None], raw, 0.0), finite)

    @cached_property
    def even(self) -> Looks:
        """Uniform head."""
        allowed = self.allowed
        level = allowed / np.maximum(allowed.sum(-1, keepdims=True), 1)
        return Looks(self.facts, level[..., None])


class _Found:
    """Sums of one stack, ``[column, head]`` integers in float64, by the names of `Sums`."""

    def __init__(self, heads: int):
        self.parts = {name: np.zeros((len(COLUMNS), heads)) for name in Sums.__dataclass_fields__}

    def put(self, name: str, measure: str, found: np.ndarray) -> None:
        """Store numbers ``[head]`` or ``[offset, head]`` of a measure."""
        self.parts[name][PLACES[measure]] = found

    def values(
        self, measure: str, values: np.ndarray, rows: np.ndarray, by_chance: bool = False
    ) -> None:
        """Store values ``[row, head]`` over the selected rows."""
        whole = np.rint(values * GRID) * rows
        self.put("chance_rows" if by_chance else "rows", measure, rows.sum(0))
        self.put("chance" if by_chance else "total", measure, whole.sum(0))
        if not by_chance:
            self.put("squares", measure, np.rint(whole * whole / GRID).sum(0))

    def sums(self, sentences: int) -> Sums:
        """Return them as `Sums`."""
        shape = (len(COLUMNS), sentences, -1)
        return Sums(
            **{
                name: np.rint(part).astype(np.int64).reshape(shape).transpose(1, 2, 0)
                for name, part in self.parts.items()
            }
        )


def measure(stack: Stacked, draws: np.ndarray | None) -> Sums:
    """Return every measure of each sentence except copying: own, by chance and under the null.

    ``draws`` ``[sentence]`` uint64 determine the null's order of rows and ids; None leaves the null
    out.
    """
    sentences, heads = stack.weights.shape[:2]
    found = _Found(sentences * heads)
    own, even, facts = stack.own, stack.even, stack.facts
    spoken = np.broadcast_to(facts.spoken[:, None] * 1.0, own.rows.shape)
    viewed = facts.chosen[:, None] * own.heeded.astype(np.float64)  # rows of the uniform heads
    for names, values, may, rows, usual in (
        (ASKED, asked_values, asked_rows(facts), own.asked, spoken),
        (VIEWED, viewed_values, viewed_rows(facts), own.rows, viewed),
    ):
        _by_rows(found, names, values(own), may, rows)
        level = np.rint(values(even)[..., 0] * GRID) * may
        for place, name in enumerate(names):
            found.put("chance_rows", name, may[place] @ usual)
            found.put("chance", name, level[place] @ usual)
    _positional(found, stack, viewed, draws)
    if stack.cross:
        _across(found, own, even, viewed)
    if stack.values is not None:
        _null(found, stack, spoken)
    sums = found.sums(sentences)
    if stack.ids is not None and not stack.cross:
        by_ids(sums, own, even, stack.ids, draws)
    return sums


def _by_rows(
    found: _Found, names: tuple[str, ...], values: np.ndarray, may: np.ndarray, rows: np.ndarray
) -> None:
    """Store values ``[measure, query, head]`` over the rows selected by ``may`` and ``rows``."""
    values *= GRID
    np.rint(values, out=values)
    values *= may[..., None]
    values *= rows
    total = values.sum(1)
    values *= values
    values /= GRID
    np.rint(values, out=values)
    squares = values.sum(1)
    for place, name in enumerate(names):
        found.put("rows", name, may[place] @ rows)
        found.put("total", name, total[place])
        found.put("squares", name, squares[place])


def _positional(
    found: _Found, stack: Stacked, viewed: np.ndarray, draws: np.ndarray | None
) -> None:
    """Store `positional`, and offset measures under the null."""
    own, facts = stack.own, stack.facts
    there = facts.offsets.astype(np.float64)
    total, squares = own.shares(own.rows)
    found.put("rows", "positional", there @ own.rows)
    found.put("total", "positional", total)
    found.put("squares", "positional", squares)
    row, key, _, share = stack.even.peaks
    level = np.zeros((len(facts.of.allowed), len(there)))
    known = facts.column[row, key] >= 0
    level[row[known], facts.column[row, key][known]] = share[known]
    found.put("chance_rows", "positional", there @ viewed)
    found.put("chance", "positional", level.T @ viewed)
    if draws is not None:
        _by_null(found, stack, viewed, draws)


def _by_null(found: _Found, stack: Stacked, viewed: np.ndarray, draws: np.ndarray) -> None:
    """Store offset measures with shuffled rows of words."""
    own, facts = stack.own, stack.facts
    there = facts.offsets.astype(np.float64)
    order = np.repeat(orders(facts, draws, 0).T, stack.weights.shape[1], axis=1)
    if facts.alike:
        moved, standing, where = own, order, np.argsort(order, axis=0)
        rows = own.rows
    else:
        raw = np.take_along_axis(own.raw, order[:, None], 0)
        finite = None if own.finite is None else np.take_along_axis(own.finite, order, 0)
        moved, standing, where = Looks(facts, raw, finite), None, None
        rows = moved.asked * viewed
    found.put("null_rows", "positional", there @ rows)
    found.put("null", "positional", moved.shares(rows, where)[0])
    if stack.cross:
        return
    may = viewed_rows(facts)
    for name, offset in zip(VIEWED[-len(NEAR) :], NEAR, strict=True):
        own_rows = rows * may[VIEWED.index(name)][:, None]
        found.put("null_rows", name, own_rows.sum(0))
        whole = np.rint(moved.at(offset, standing) * GRID)
        found.put("null", name, (whole * own_rows).sum(0))


def _across(found: _Found, own: Looks, even: Looks, viewed: np.ndarray) -> None:
    """Store the measures of cross-attention."""
    for looks, rows, by_chance in ((own, own.rows, False), (even, viewed, True)):
        near = diagonal(looks, rows)
        if near is not None:
            found.values("diagonality", *near, by_chance)
        pairs, total, squares = ascending(looks, rows)
        found.put("chance_rows" if by_chance else "rows", "monotonicity", pairs)
        found.put("chance" if by_chance else "total", "monotonicity", total)
        if not by_chance:
            found.put("squares", "monotonicity", squares)
        found.values("coverage", *covering(looks), by_chance)


def _null(found: _Found, stack: Stacked, spoken: np.ndarray) -> None:
    """Store `null` for heads with a sink row, and for uniform heads with the same values."""
    assert stack.values is not None
    r, own = stack.facts.of, stack.own
    sinks = r.key_special.copy()
    sinks[r.first] = True
    places = np.flatnonzero(sinks)
    open_sinks = r.allowed[:, places, None]
    asked = own.asked * ((own.raw[:, places] * open_sinks).sum(1) > SINK)
    heads = np.flatnonzero(asked.any(0))
    level = stack.even.raw[..., 0]
    queries = np.flatnonzero(
        stack.facts.spoken & ((level[:, places] * open_sinks[..., 0]).sum(1) > SINK)
    )
    if not len(heads) and not len(queries):
        return
    every = stack.values()
    if len(heads):
        weights = np.ascontiguousarray(own.raw[:, :, heads].transpose(2, 0, 1))
        idle, some = _idle(weights, every[heads], places)
        values, rows = np.zeros(asked.shape), np.zeros(asked.shape)
        values[:, heads], rows[:, heads] = idle.T, asked[:, heads] * some.T
        found.values("null", values, rows)
    if len(queries):
        idle, some = _idle(level[queries], every, places)
        found.values("null", idle.T, spoken[queries] * some.T, by_chance=True)


def _idle(
    weights: np.ndarray, values: np.ndarray, sinks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each row without effect, and its mask, ``[head, query]``."""
    whole, part = (
        np.sqrt(np.square(x).sum(-1))
        for x in (weights @ values, weights[..., sinks] @ values[:, sinks])
    )
    some = whole > 0
    return np.clip(1 - part / np.where(some, whole, 1.0), 0.0, 1.0), some.astype(np.float64)


def put_apart(
    sums: Sums, number: int, heads: slice, name: str, own: Tally, by_chance: Tally
) -> None:
    """Store a measure that needs the model, for one block in one sentence."""
    place = (slice(number, number + 1), heads, PLACES[name])
    sums.rows[place], sums.total[place], sums.squares[place] = _whole(own)
    sums.chance_rows[place], sums.chance[place] = _whole(by_chance)[:2]


def _whole(found: Tally) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, sum and squares as integers, ``[1, head, 1]``."""
    rows, total, squares = (
        np.rint(part * unit).astype(np.int64)[None, :, None]
        for part, unit in ((found.rows, 1), (found.total, GRID), (found.squares, GRID))
    )
    return rows, total, squares
