"""Measures with one value per row, for concatenated heads (see `side_by_side`).

Their definitions are in `registry`.
"""

from __future__ import annotations

import numpy as np

from ...core.numerics import weight_bits
from .keys import OFFSETS, may_choose, may_sink, off_diagonal, reach
from .rows import GRID, TIE
from .side_by_side import Facts, Looks

#: Measures of all word rows with a choice, and of those with a choice in the view.
ASKED = ("confidence", "sink", "special")
VIEWED = ("entropy", "distance", "previous", "self", "next")
NEAR = (-1, 0, 1)  # offsets of the last three
LEAST = 1e-300  # smallest divisor


def asked_values(looks: Looks) -> np.ndarray:
    """Return values by `ASKED`, ``[measure, query, head]``."""
    r, raw = looks.facts.of, looks.raw
    found = np.zeros((len(ASKED), raw.shape[0], raw.shape[2]))
    found[0] = (raw * (r.allowed & ~r.ends)[..., None]).max(1)
    found[1] = raw[:, r.first]
    for key in np.flatnonzero(r.key_special):
        found[2] += raw[:, key] * r.allowed[:, key, None]
    return found


def asked_rows(facts: Facts) -> np.ndarray:
    """Return 1 for rows that count by `ASKED`, else 0, ``[measure, query]``."""
    r = facts.of
    return np.stack(
        [np.ones(len(r.allowed)), may_sink(r), may_choose(r, r.key_special)]
    )  # fmt: skip


def viewed_values(looks: Looks) -> np.ndarray:
    """Return values by `VIEWED`, ``[measure, query, head]``."""
    r, viewed = looks.facts.of, looks.viewed
    p = viewed if r.view == "content" else viewed / np.maximum(viewed.sum(1), LEAST)[:, None]
    bits = np.nan_to_num(weight_bits(p).sum(1))  # NaN where a weight is negative
    found = np.zeros((len(VIEWED), viewed.shape[0], viewed.shape[2]))
    np.divide(-bits, np.log2(np.maximum(r.count, 2))[:, None], out=found[0])
    if r.cross:
        return found
    far = viewed * np.abs(r.steps).astype(np.float64)[..., None]
    np.divide(far.sum(1), np.maximum(reach(r), 1)[:, None], out=found[1])
    for place, offset in enumerate(NEAR, 2):
        found[place] = looks.at(offset)
    return found


def viewed_rows(facts: Facts) -> np.ndarray:
    """Return 1 for rows that count by `VIEWED`, else 0, ``[measure, query]``."""
    r, there = facts.of, facts.offsets
    near = [there[OFFSETS.index(offset)] & (not r.cross) for offset in NEAR]
    return np.stack([np.ones(len(there[0]), bool), (reach(r) > 0) & (not r.cross), *near]).astype(
        np.float64
    )


def diagonal(looks: Looks, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return `diagonality` of each row and its mask, ``[query, head]``; None if undefined."""
    r = looks.facts.of
    off = off_diagonal(r)
    if off is None:
        return None
    even = (r.keys * off).sum(-1) / np.maximum(r.count, 1)
    usual = (rows * even[:, None]).sum(0) / np.maximum(rows.sum(0), 1)  # [head]
    far = (looks.viewed * off[..., None]).sum(1)
    return 1 - far / np.where(usual > 0, usual, 1.0), rows * (usual > 0)


def ascending(looks: Looks, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return pairs, sum and squares of `monotonicity`, ``[head]``, in integers of `GRID`."""
    keys = looks.raw.shape[1]
    place = np.arange(keys, dtype=np.float64)[:, None]
    total = looks.viewed.sum(1)
    mu = (looks.viewed * place).sum(1) / np.where(total > 0, total, 1.0)
    words, by = np.flatnonzero(looks.facts.chosen), TIE * keys
    first, later = (words[some] for some in np.triu_indices(len(words), 1))
    both = rows[first] * rows[later]
    ahead = mu[later] - mu[first]  # [pair, head]
    pairs, above = both.sum(0), (both * (ahead > by)).sum(0)
    level = (both * (np.abs(ahead) <= by)).sum(0)
    return pairs, (above + level / 2) * GRID, (above + level / 4) * GRID


def source_shares(looks: Looks) -> tuple[np.ndarray, np.ndarray]:
    """Return each source token's weight relative to its fair share, and the number of rows.

    ``cov_j Tk / Tq`` ``[key, head]`` and ``[head]``. Below 0.1 a word is *dead*. The whole target
    counts, including rows of its special tokens.
    """
    r = looks.facts.of
    rows = r.spoken[:, None] & looks.heeded
    given = (looks.viewed * rows[:, None]).sum(0)
    number = rows.sum(0)
    return given * r.keys.any(0).sum() / np.maximum(number, 1), number


def covering(looks: Looks) -> tuple[np.ndarray, np.ndarray]:
    """Return `coverage` of each key and its mask, ``[key, head]``."""
    share, number = source_shares(looks)
    asked = looks.facts.of.content[:, None] & (number > 0)
    return np.minimum(1.0, share), asked.astype(np.float64)
