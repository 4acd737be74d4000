"""Links between source and target words, from cross-attention alone."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ...core.trace_parts import Tokens
from ..attention.word_merging import Axis, Regrouped, axis, merge_words
from ..head_measures.rows import TIE

#: ``out``: the row that predicts a word; ``in``: the row that reads it (Chen et al. 2020).
SHIFTS = ("out", "in")
SYMMETRIC = ("intersection", "union", "grow-diag")
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))

#: Link: index of the source word and of the target word, from 0, without special tokens.
Link = tuple[int, int]
Links = frozenset[Link]


def row_axis(target: Tokens, shift: str) -> Axis:
    """Return the token of each decoder row: the one it reads, or the one it predicts.

    Row t reads token t and predicts token t + 1. The last row's prediction is unknown here; it
    counts as the end of the sentence.

    Raises:
        ValueError: Unknown shift.
    """
    if shift not in SHIFTS:
        raise ValueError(f'shift is "out" or "in"; got {shift!r}.')
    read = axis(target)
    if shift == "in":
        return read
    return Axis(
        (*read.labels[1:], ""),
        (*read.words[1:], max(read.words, default=0) + 1),
        (*read.special[1:], True),
    )


def by_words(weights: np.ndarray, source: Tokens, target: Tokens, shift: str) -> Regrouped:
    """Return cross-attention ``[..., row, key]`` by words: columns summed, rows averaged.

    Special tokens stay separate rows and columns (`Axis.special`).
    """
    return merge_words(weights, row_axis(target, shift), axis(source))


def words_in(side: Axis) -> np.ndarray:
    """Return the indices of an axis that are words, in reading order."""
    return np.flatnonzero(~np.array(side.special, bool))


def strongest(weights: np.ndarray) -> np.ndarray:
    """Return the index of each row's largest weight, ``[..., row]``; -1 for ties or zeros.

    For equal weights (a uniform head), argmax would select the first word.
    """
    if not weights.shape[-1]:
        return np.full(weights.shape[:-1], -1)
    top = weights.max(-1, keepdims=True)
    alone = (weights >= top - TIE).sum(-1) == 1
    return np.where(alone & (top[..., 0] > TIE), weights.argmax(-1), -1)


def links_of(merged: Regrouped, symmetric: str | None = None) -> Links:
    """Return the links of one map ``[row word, key word]``, to each target word's strongest source.

    A word has no link if a special token is strongest. With ``symmetric``, each source word is also
    linked to its strongest target word, and both sets are merged (`joined`).
    """
    rows, columns = words_in(merged.queries), words_in(merged.keys)
    forward = _pairs(merged.weights, rows, columns)
    if symmetric is None:
        return frozenset((s, t) for t, s in forward)
    return joined(
        frozenset((s, t) for t, s in forward), _pairs(merged.weights.T, columns, rows), symmetric
    )


def _pairs(weights: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Links:
    place = {int(column): number for number, column in enumerate(columns)}
    best = strongest(weights)[rows]
    return frozenset((n, place[int(at)]) for n, at in enumerate(best) if int(at) in place)


def joined(one: Collection[Link], other: Collection[Link], how: str) -> Links:
    """Merge the links of two directions.

    ``intersection`` and ``union`` are set operations. ``grow-diag`` starts with the intersection
    and adds links of the union next to an existing one, also diagonally, while one of the two words
    has none yet. Och and Ney 2003, section 3; Koehn et al. 2003, section 3.

    Raises:
        ValueError: Unknown method.
    """
    if how not in SYMMETRIC:
        raise ValueError(f"Links are joined by {', '.join(SYMMETRIC)}; got {how!r}.")
    both, either = set(one) & set(other), set(one) | set(other)
    if how != "grow-diag":
        return frozenset(either if how == "union" else both)
    found, grown = set(both), True
    while grown:
        grown = False
        for s, t in sorted(found):
            for ds, dt in NEIGHBOURS:
                new = s + ds, t + dt
                free = new[0] not in {a for a, _ in found} or new[1] not in {b for _, b in found}
                if new in either and new not in found and free:
                    found.add(new)
                    grown = True
    return frozenset(found)
