"""Rows and keys of each measure, from mask and ids only, so the same for all heads.

``r`` is a `HeadRows`; only mask, special tokens and view are used.
"""

from __future__ import annotations

import numpy as np

from .rows import HeadRows

FURTHEST = 8  # largest offset in tokens, to either side
OFFSETS = tuple(range(-FURTHEST, FURTHEST + 1))
MOST = 1 / 4  # largest share of matching keys per row; with more, any head would match


def reach(r: HeadRows) -> np.ndarray:
    """Return the largest visible distance of each row, in tokens, ``[query]``."""
    return np.where(r.keys, np.abs(r.steps), 0).max(-1)


def offset_keys(r: HeadRows, offsets: tuple[int, ...] = OFFSETS) -> tuple[np.ndarray, np.ndarray]:
    """Return the key at each offset from a row, and True where it counts.

    Both are ``[offset, query]``; the key is 0 where none counts. Under a causal mask the token
    before row 1 is the first, so `previous` and `sink` would coincide there.
    """
    queries, keys = r.allowed.shape
    row, step = np.arange(queries), np.array(offsets)[:, None]
    key = row + step  # [offset, query]
    there = (key >= 0) & (key < keys)
    key = np.where(there, key, 0)
    there &= (r.keys & r.content)[row, key]
    if r.causal:
        there &= (step >= 0) | (key != r.first) | (row != r.first + 1)
    return key, there


def may_sink(r: HeadRows) -> np.ndarray:
    """Return True for the rows that count for `sink`, bool ``[query]``."""
    place = np.arange(len(r.allowed)) - r.first
    return r.allowed[:, r.first] & ((place >= 2) | (not r.causal))


def may_choose(r: HeadRows, keys: np.ndarray) -> np.ndarray:
    """Return True for rows that see one of these keys and another key, bool ``[query]``."""
    return (r.allowed & keys).any(-1) & (r.allowed & ~keys).any(-1)


def few_of(r: HeadRows, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return matching keys that are words, ``[..., query, key]``, and rows with a few of them."""
    right = right & r.keys & r.content
    number = right.sum(-1)
    return right, (number > 0) & (number <= r.count * MOST)


def duplicate_keys(r: HeadRows, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the matching keys of `duplicate` and its rows, for ids ``[..., key]``."""
    same = (ids[..., None, :] == ids[..., :, None]) & (r.steps != 0)
    return same, np.ones(ids.shape, bool)


def induction_keys(r: HeadRows, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the matching keys of `induction` and its rows, for ids ``[..., key]``."""
    before = np.roll(ids, 1, -1)
    places = np.arange(ids.shape[-1])
    real = r.allowed.any(0)
    after = (before[..., None, :] == ids[..., :, None]) & (places > 0) & np.roll(real, 1)
    run = (before == ids) & (places > r.first)
    return after & (r.steps < 0), ~run


def off_diagonal(r: HeadRows) -> np.ndarray | None:
    """Return each cell's distance from the diagonal, ``|i/Tq - j/Tk|``, ``[query, key]``.

    None in self-attention, and with fewer than three tokens on a side.
    """
    real = r.allowed.any(0)
    if not r.cross or min(r.spoken.sum(), real.sum()) < 3:
        return None
    i, j = (np.cumsum(there) - 1 for there in (r.spoken, real))
    return np.abs((i / i[-1])[:, None] - j / j[-1])
