"""M9 and M10: whether a head finds a token again, and what followed it then."""

from __future__ import annotations

import numpy as np

from .patterns import nothing
from .rows import HeadRows, Tally, tally

MOST = 1 / 4  # of a row's keys may be right; where more are, a head that looks anywhere is right


def _on(r: HeadRows, right: np.ndarray, rows: np.ndarray) -> Tally:
    """Weight on the right keys, bool ``[query, key]``: added within a row, not averaged."""
    right, few = few_of(r, right)
    return tally((r.viewed * right).sum(-1), r.rows & rows & few)


def few_of(r: HeadRows, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The right keys that are words, ``[..., query, key]``, and rows with some but not too many."""
    right = right & r.keys & r.content
    number = right.sum(-1)
    return right, (number > 0) & (number <= r.count * MOST)


def duplicate(r: HeadRows) -> Tally:
    """M9: weight on other places of the same token, ``sum A'[i, j]``, ``id_j = id_i``, ``j != i``.

    Range 0..1, uniform #D_i/n_i. Rows of words with such a place, ``#D_i <= n_i / 4``;
    self-attention. Wang et al. 2022, section 3.
    """
    if r.cross or r.key_ids is None:
        return nothing(r)
    return _on(r, *duplicate_keys(r, r.key_ids))


def duplicate_keys(r: HeadRows, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The right keys of `duplicate` and its rows, of ids ``[..., key]``."""
    same = (ids[..., None, :] == ids[..., :, None]) & (r.steps != 0)
    return same, np.ones(ids.shape, bool)


def induction(r: HeadRows) -> Tally:
    """M10: weight on what followed the same token, ``sum A'[i, j]``, ``id_{j-1} = id_i``, j-1 < i.

    Range 0..1, uniform #S_i/n_i. Rows of words with such a key other than themselves, not inside a
    run of one token, ``#S_i <= n_i / 4``; self-attention. Olsson et al. 2022, "prefix matching".
    """
    if r.cross or r.key_ids is None:
        return nothing(r)
    return _on(r, *induction_keys(r, r.key_ids))


def induction_keys(r: HeadRows, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The right keys of `induction` and its rows, of ids ``[..., key]``."""
    before = np.roll(ids, 1, -1)
    places = np.arange(ids.shape[-1])
    real = r.allowed.any(0)
    after = (before[..., None, :] == ids[..., :, None]) & (places > 0) & np.roll(real, 1)
    run = (before == ids) & (places > r.first)
    return after & (r.steps < 0), ~run
