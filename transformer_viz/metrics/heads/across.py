"""How cross-attention walks over the source: order, diagonal, coverage (M13 to M15)."""

from __future__ import annotations

import numpy as np

from .maps import TIE, Maps
from .moments import Moments, nothing, tally

DEAD = 0.1  # a source word with less than this share of an even part is read by nobody


def monotonicity(maps: Maps) -> Moments:
    """M13: the share of pairs of rows whose mean source positions are in order, 0...1; uniform .5.

    1 is left to right, 0 reversed; ties count half. Eligible: pairs of rows of the view.
    """
    if not maps.cross:
        return nothing(maps.raw.shape[:1])
    mean = (maps.viewed * np.arange(maps.visible.shape[1])).sum(-1)
    step = mean[:, None, :] - mean[:, :, None]
    order = np.where(np.abs(step) <= TIE, 0.5, step > 0)
    later = np.triu(np.ones(step.shape[1:], dtype=bool), 1)
    pairs = maps.rows[:, :, None] & maps.rows[:, None, :] & later
    return tally(order.reshape(len(mean), -1), pairs.reshape(len(mean), -1))


def diagonality(maps: Maps) -> Moments:
    """M14: how much closer to the diagonal than uniform, ``1 - D / D(uniform)``, at most 1.

    D is the mean over rows of ``sum w |i/(Tq-1) - j/(Tk-1)|``; uniform gives 0, reversed order less
    than 0. Eligible: rows of the view, with 3 rows and 3 keys or more.
    """
    rows, columns = maps.visible.shape
    if not maps.cross or min(rows, columns) < 3:
        return nothing(maps.raw.shape[:1])
    away = np.abs(np.arange(rows)[:, None] / (rows - 1) - np.arange(columns) / (columns - 1))
    even = (away * maps.keys).sum(1) / np.maximum(maps.n, 1)
    count = np.maximum(maps.rows.sum(1, keepdims=True), 1)
    chance = (even * maps.rows).sum(1, keepdims=True) / count
    far = (maps.viewed * away).sum(-1)
    return tally(1 - far / np.where(chance > 0, chance, 1), maps.rows & (chance > 0))


def coverage(maps: Maps) -> Moments:
    """M15: how evenly source words are read, the mean over words of ``min(1, c Tk/Tq)`` with c a
    word's weight over all rows, 0...1; uniform 1.

    Eligible: ordinary source words that are seen; all target rows count, the one that writes the
    end of the sentence too. Tu et al. 2016, Wu et al. 2016.
    """
    if not maps.cross:
        return nothing(maps.raw.shape[:1])
    share, words = _share(maps)
    return tally(np.minimum(1.0, share), words)


def dead_words(maps: Maps) -> Moments:
    """M15: the share of source words that get less than a tenth of an even part, 0...1."""
    share, words = _share(maps)
    return tally((share < DEAD).astype(np.float64), words)


def _share(maps: Maps) -> tuple[np.ndarray, np.ndarray]:
    """Of each source word its weight over an even part, and which words are asked, [head, key]."""
    rows = maps.seen.sum(1, keepdims=True)
    read = (maps.viewed * maps.seen[..., None]).sum(1)
    words = maps.keys.any(0) & ~maps.key.special
    even = rows / max(int(maps.keys.any(0).sum()), 1)
    return read / np.where(even > 0, even, 1), words & (rows > 0)
