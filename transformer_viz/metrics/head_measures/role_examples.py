"""Example sentences of a role: the best, and typical ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .registry import settled
from .tables import Block

SHOWN = 3  # sentences of each kind
LEAST_ROWS = 3  # sentences with fewer rows are skipped


def role_examples(
    sentences: Sequence[Sequence[Block]], head: int, measure: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sentences with a head's largest values, and those nearest its mean.

    Ties are ordered by number.

    Args:
        sentences: Blocks of each sentence, in one order.
        head: Index among all heads of these blocks.
        measure: Name in the registry.

    Returns:
        Best and typical, three of each or fewer; sentences with under three rows are skipped.
    """
    tallies = [_of(sentence, head, measure) for sentence in sentences]
    sums, counts = (np.stack([one[part] for one in tallies]) for part in (0, 1))
    mean = settled(sums.sum(0)[None], counts.sum(0)[None])[0][0]
    values = np.array([settled(s[None], c[None])[0][0] for s, c in tallies])
    enough = np.flatnonzero((counts.max(-1) >= LEAST_ROWS) & np.isfinite(values))
    best = sorted(enough, key=lambda n: (-values[n], n))[:SHOWN]
    typical = sorted(enough, key=lambda n: (abs(values[n] - mean), n))[:SHOWN]
    return tuple(map(int, best)), tuple(map(int, typical))


def _of(sentence: Sequence[Block], head: int, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Return sum and rows of one head in one sentence, ``[offset]`` each."""
    for block in sentence:
        if head < block.heads:
            tally = block.own[measure]
            return (
                tally.total.reshape(block.heads, -1)[head],
                tally.rows.reshape(block.heads, -1)[head],
            )
        head -= block.heads
    raise IndexError("There is no such head in these blocks.")
