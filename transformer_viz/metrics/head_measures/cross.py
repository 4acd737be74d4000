"""M13 to M15: how a cross-attention head walks through the source."""

from __future__ import annotations

import numpy as np

from .patterns import nothing
from .rows import TIE, HeadRows, Tally, tally


def monotonicity(r: HeadRows) -> Tally:
    """M13: share of pairs of rows i < i' whose expected source positions ``sum j A'`` ascend.

    Range 0..1: 1 from left to right, 0 reversed, .5 without an order; ties count .5. Rows of words,
    two at least; what is counted are pairs. Cross-attention.
    """
    if not r.cross:
        return nothing(r)
    keys = r.allowed.shape[1]
    mu = (r.viewed * np.arange(keys)).sum(-1) / np.where(r.rows, r.viewed.sum(-1), 1.0)
    ahead = mu[:, None, :] - mu[:, :, None]  # [head, i, i']
    ascends = np.where(np.abs(ahead) <= TIE * keys, 0.5, ahead > 0)
    pairs = r.rows[:, :, None] & r.rows[:, None, :] & np.triu(np.ones(ascends.shape[1:], bool), 1)
    return tally(ascends.reshape(r.heads, -1), pairs.reshape(r.heads, -1))


def diagonality(r: HeadRows) -> Tally:
    """M14: how near the diagonal, ``1 - D(A) / D(uniform)``, ``D = mean sum A' |i/Tq - j/Tk|``.

    Positions are counted from 0 to 1. At most 1, uniform 0; a reversed order is below 0 and is not
    cut. Rows of words, three tokens at least on both sides. Cross-attention.
    """
    off = off_diagonal(r)
    if off is None:
        return nothing(r)
    even = (r.keys * off).sum(-1) / np.maximum(r.count, 1)
    number = np.maximum(r.rows.sum(-1), 1)
    usual = np.where(r.rows, even, 0.0).sum(-1) / number  # [head]
    near = 1 - (r.viewed * off).sum(-1) / np.where(usual > 0, usual, 1.0)[:, None]
    return tally(near, r.rows & (usual > 0)[:, None])


def off_diagonal(r: HeadRows) -> np.ndarray | None:
    """How far each cell is from the diagonal, ``|i/Tq - j/Tk|``, ``[query, key]``; None where it
    is not asked."""
    real = r.allowed.any(0)
    if not r.cross or min(r.spoken.sum(), real.sum()) < 3:
        return None
    i, j = (np.cumsum(there) - 1 for there in (r.spoken, real))
    return np.abs((i / i[-1])[:, None] - j / j[-1])


def covered(r: HeadRows) -> np.ndarray:
    """How much of its fair share each source token got, ``cov_j Tk / Tq``, ``[head, key]``.

    Below 0.1 a word is *dead*. The whole target is asked, also the rows of its special tokens.
    """
    rows = r.spoken & r.heeded
    given = np.where(rows[..., None], r.viewed, 0.0).sum(1)
    keys = r.keys.any(0).sum()
    return given * keys / np.maximum(rows.sum(-1), 1)[:, None]


def coverage(r: HeadRows) -> Tally:
    """M15: how much of the source is read, ``mean over j of min(1, cov_j Tk / Tq)``.

    Range 0..1, uniform 1. What is counted are source words. Cross-attention. Tu et al. 2016.
    """
    if not r.cross:
        return nothing(r)
    some = (r.spoken & r.heeded).any(-1)[:, None]
    return tally(np.minimum(1.0, covered(r)), r.content & some)
