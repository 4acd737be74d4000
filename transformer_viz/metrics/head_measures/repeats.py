"""M9 and M10: whether a head finds a token again, and what followed it then."""

from __future__ import annotations

import numpy as np

from .patterns import nothing
from .rows import HeadRows, Tally, tally

MOST = 1 / 4  # of a row's keys may be right; where more are, a head that looks anywhere is right


def _on(r: HeadRows, right: np.ndarray, rows: np.ndarray) -> Tally:
    """Weight on the right keys, bool ``[query, key]``: added within a row, not averaged."""
    right = right & r.keys & r.content
    number = right.sum(-1)
    few = (number > 0) & (number <= r.count * MOST)
    return tally((r.viewed * right).sum(-1), r.rows & rows & few)


def duplicate(r: HeadRows) -> Tally:
    """M9: weight on other places of the same token, ``sum A'[i, j]``, ``id_j = id_i``, ``j != i``.

    Range 0..1, uniform #D_i/n_i. Rows of words with such a place, ``#D_i <= n_i / 4``;
    self-attention. Wang et al. 2022, section 3.
    """
    if r.cross or r.key_ids is None:
        return nothing(r)
    same = (r.key_ids == r.key_ids[:, None]) & (r.steps != 0)
    return _on(r, same, np.ones(len(same), bool))


def induction(r: HeadRows) -> Tally:
    """M10: weight on what followed the same token, ``sum A'[i, j]``, ``id_{j-1} = id_i``, j-1 < i.

    Range 0..1, uniform #S_i/n_i. Rows of words with such a key other than themselves, not inside a
    run of one token, ``#S_i <= n_i / 4``; self-attention. Olsson et al. 2022, "prefix matching".
    """
    if r.cross or r.key_ids is None:
        return nothing(r)
    before = np.roll(r.key_ids, 1)
    places = np.arange(len(before))
    real = r.allowed.any(0)
    after = (before == r.key_ids[:, None]) & (places > 0) & np.roll(real, 1)
    run = (before == r.key_ids) & (places > r.first)
    return _on(r, after & (r.steps < 0), ~run)
