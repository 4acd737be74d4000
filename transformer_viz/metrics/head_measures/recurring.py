"""Duplicate and induction over many sentences, computed only for rows with a repeated token."""

from __future__ import annotations

import numpy as np

from .columns import PLACES, Sums
from .keys import duplicate_keys, few_of, induction_keys
from .rows import GRID
from .side_by_side import Looks, orders

RIGHT = {"duplicate": duplicate_keys, "induction": induction_keys}


def by_ids(
    sums: Sums,
    own: Looks,
    even: Looks,
    ids: np.ndarray,
    draws: np.ndarray | None,
) -> None:
    """Add both measures to the sums, for sentences with a repeated token.

    Args:
        sums: Sums to fill.
        own: Heads of all sentences, by sentence.
        even: Uniform head.
        ids: ``[sentence, key]``.
        draws: ``[sentence]``, see `orders`; None leaves the null out.
    """
    ordered = np.sort(ids, axis=1)
    twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(1))
    if not len(twice):
        return
    kinds: list[tuple[np.ndarray, tuple[str, ...]]] = [(ids[twice], ("rows", "total", "chance"))]
    if draws is not None:
        moved = np.take_along_axis(ids[twice], orders(own.facts, draws[twice], 1), 1)
        kinds.append((moved, ("null",)))
    for name, right_keys in RIGHT.items():
        at = PLACES[name].start
        for these, parts in kinds:
            r = own.facts.of
            right, rows = right_keys(r, these)
            right, few = few_of(r, right)
            place, query = np.nonzero(few & rows & own.facts.chosen)
            if not len(place):
                continue
            on = right[place, query].astype(np.float64)  # [pair, key]
            _put(sums, own, even, twice[place], query, on, at, parts)


def _put(
    sums: Sums,
    own: Looks,
    even: Looks,
    sentence: np.ndarray,
    query: np.ndarray,
    on: np.ndarray,
    at: int,
    parts: tuple[str, ...],
) -> None:
    """Add rows ``query`` of sentences ``sentence`` with matching keys ``on``, ``[pair, key]``."""
    count, heads = sums.rows.shape[:2]
    queries, keys = own.raw.shape[:2]
    viewed = own.viewed.reshape(queries, keys, count, heads)[query, :, sentence]
    rows = own.rows.reshape(queries, count, heads)[query, sentence]  # [pair, head]
    whole = np.rint((viewed * on[..., None]).sum(1) * GRID) * rows

    def add(name: str, found: np.ndarray) -> None:
        np.add.at(getattr(sums, name)[..., at], sentence, found.astype(np.int64))

    if parts == ("null",):
        add("null_rows", rows)
        add("null", whole)
        return
    add("rows", rows)
    add("total", whole)
    add("squares", np.rint(whole * whole / GRID))
    kept = own.heeded.reshape(queries, count, heads)[query, sentence]
    level = np.rint((even.viewed[query, :, 0] * on).sum(1) * GRID)
    add("chance_rows", kept)
    add("chance", kept * level[:, None])
