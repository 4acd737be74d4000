"""Which sentences show a role: its best, and some that are typical of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .registry import settled
from .tables import Block

SHOWN = 3  # sentences of each kind
LEAST_ROWS = 3  # a sentence with fewer shows little


def role_examples(
    sentences: Sequence[Sequence[Block]], head: int, measure: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the sentences in which a head has a measure most, and of those nearest its
    mean over all; ties by number.

    Args:
        sentences: the blocks of each sentence, in one order.
        head: its number among all heads of these blocks.
        measure: a name of the registry.

    Returns:
        Best and typical, three of each or fewer; a sentence with under three rows is none.
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
    """Sum and rows of one head in one sentence, ``[offset]`` each."""
    for block in sentence:
        if head < block.heads:
            tally = block.own[measure]
            return (
                tally.total.reshape(block.heads, -1)[head],
                tally.rows.reshape(block.heads, -1)[head],
            )
        head -= block.heads
    raise IndexError("There is no such head in these blocks.")
