"""Order in which heads attend to the source while words are predicted or read: M13 to M15."""

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
DEAD = 0.1  # share of the fair weight below which a source word counts as unread


@dataclass(frozen=True)
class Walk:
    """Measure M13, M14 or M15: its value, that of a uniform head, and the number of rows.

    ``value`` and ``chance`` are NaN without usable rows.
    """

    name: str
    value: float
    chance: float
    rows: int


def cross_rows(trace: Trace, shift: str, layer: int | None, head: int | None) -> HeadRows:
    """Return one head of a trace's cross-attention, or the mean of a layer or of all as one head.

    Rows belong to the word that they predict (``out``) or read (``in``). Special tokens are left
    out and each row is renormalized (the view ``content``).
    """
    blocks = trace.blocks("cross") if layer is None else (trace.block("cross", layer),)
    first = rows_of(trace, blocks[0], "content")
    allowed = np.any([rows_of(trace, one, "content").allowed for one in blocks], axis=0)
    rows = np.array(row_axis(trace.tokens("target"), shift).special, bool)
    return replace(
        first, weights=mean_map(trace, layer, head)[None], allowed=allowed, query_special=rows
    )


def mean_map(trace: Trace, layer: int | None = None, head: int | None = None) -> np.ndarray:
    """Return cross-attention ``[row, key]``: one head, or the mean of a layer or of all heads.

    Raises:
        LookupError: No such layer or head.
        ValueError: A head without its layer, or layers of different shape.
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
    """Return the tally of each of `WALKS`, and that of a uniform head."""
    found = measured(CROSS, rows)
    return [(found.own[name], found.chance[name]) for name in WALKS]


def shares(rows: HeadRows, keys: Axis) -> np.ndarray:
    """Return each source word's weight relative to its fair share, ``[word]``; 1 if uniform.

    The mean over the pieces of a word of M15's ``cov_j Tk / Tq``, without special words. NaN if all
    rows are sink rows.
    """
    shared, asked = source_shares(Stacked.of(rows).own)
    known, given = asked[0] > 0, shared[:, 0]
    numbers, special = np.array(keys.words), np.array(keys.special, bool)
    words = list(dict.fromkeys(numbers[~special].tolist()))
    return np.array([given[numbers == word].mean() if known else np.nan for word in words])
