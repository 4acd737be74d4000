"""How heads walk through the source while words are written or read: M13 to M15 by shift."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace
from ..attention.word_merging import Axis
from ..head_measures.row_measures import source_shares
from ..head_measures.rows import HeadRows, Tally
from ..head_measures.stacked import Stacked
from ..head_measures.tables import measured, rows_of
from .linking import row_axis

WALKS = ("monotonicity", "diagonality", "coverage")
CROSS = Site("decoder", "cross", 0)
DEAD = 0.1  # of its fair share: a source word with less is read by nobody


@dataclass(frozen=True)
class Walk:
    """One of M13 to M15: its value, what a head that looks everywhere alike gets, rows asked.

    ``value`` and ``chance`` are NaN where nobody could be asked.
    """

    name: str
    value: float
    chance: float
    rows: int


def cross_rows(trace: Trace, shift: str, layer: int | None, head: int | None) -> HeadRows:
    """One head of a trace's cross-attention; the mean of a layer's heads, or of all, as a head.

    Rows are about the word that they write (``out``) or read (``in``); special tokens are left out
    and each row is divided by what remains (the view ``content``).
    """
    blocks = trace.blocks("cross") if layer is None else (trace.block("cross", layer),)
    first = rows_of(trace, blocks[0], "content")
    allowed = np.any([rows_of(trace, one, "content").allowed for one in blocks], axis=0)
    rows = np.array(row_axis(trace.tokens("target"), shift).special, bool)
    return replace(
        first, weights=mean_map(trace, layer, head)[None], allowed=allowed, query_special=rows
    )


def mean_map(trace: Trace, layer: int | None = None, head: int | None = None) -> np.ndarray:
    """Cross-attention ``[row, key]``: of one head, the mean of a layer's heads, or of all heads.

    Raises:
        LookupError: no such layer or head; names those there are.
        ValueError: a head without its layer, or layers of different shape.
    """
    if layer is None:
        if head is not None:
            raise ValueError(f"Head {head} of which layer? Give layer= beside head=.")
        maps = [one.weights for one in trace.blocks("cross")]
        shapes = {one.shape[1:] for one in maps}
        if len(shapes) > 1:
            raise ValueError(
                f"The layers of cross-attention differ in shape {sorted(shapes)}, so they have no "
                "mean; ask for one with layer=."
            )
        return np.concatenate(maps).mean(0, dtype=np.float64).astype(np.float32)
    weights = trace.block("cross", layer).weights
    if head is None:
        return weights.mean(0, dtype=np.float64).astype(np.float32)
    if not 0 <= head < len(weights):
        raise LookupError(
            f"Cross-attention L{layer} has no head {head}; it has H0 to H{len(weights) - 1}."
        )
    return weights[head]


def walks(rows: HeadRows) -> tuple[Walk, ...]:
    """Return monotonicity, diagonality and coverage of one head, with chance and rows."""
    return tuple(
        Walk(name, float(own.mean[0]), float(chance.mean[0]), int(own.rows[0]))
        for name, (own, chance) in zip(WALKS, walk_tallies(rows), strict=True)
    )


def walk_tallies(rows: HeadRows) -> list[tuple[Tally, Tally]]:
    """Return the tally of each of `WALKS`, and that of a head that looks everywhere alike."""
    found = measured(CROSS, rows)
    return [(found.own[name], found.chance[name]) for name in WALKS]


def shares(rows: HeadRows, keys: Axis) -> np.ndarray:
    """Of each source word how much of its fair part it got, ``[word]``; 1 where all are read alike.

    The mean over the pieces of a word of M15's ``cov_j Tk / Tq``, special words left out. NaN where
    all rows are sink rows.
    """
    shared, asked = source_shares(Stacked.of(rows).own)
    known, given = asked[0] > 0, shared[:, 0]
    numbers, special = np.array(keys.words), np.array(keys.special, bool)
    words = list(dict.fromkeys(numbers[~special].tolist()))
    return np.array([given[numbers == word].mean() if known else np.nan for word in words])
