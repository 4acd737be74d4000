"""Tables of head measures, for a trace or for many sentences with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...core.apply_edits import HeadPlan
from ...core.interventions import Intervention, Temperature
from ...core.numerics import visible_cells
from ...core.sites import Site
from ...core.trace import Trace
from ...core.trace_parts import Attention, Tokens
from ..statistics.bootstrap import percentile_interval, reweightings
from .columns import PLACES
from .registry import MEASURES, settled
from .rows import GRID, VIEWS, HeadRows, Tally
from .stacked import Stacked, measure
from .values import copying, copying_by_chance, ov_by_chance, ov_copying

#: Keys of ``table.attrs`` with the null and the number of sentences, used by `roles`.
NULL, SENTENCES = "null", "sentences"

#: Columns that identify a head.
HEAD = ["stack", "block", "layer", "head"]


@dataclass(frozen=True, eq=False)
class Block:
    """All measures of one attention block in one sentence."""

    site: Site
    heads: int
    own: dict[str, Tally]
    chance: dict[str, Tally]
    null: dict[str, Tally]


def allowed_keys(attention: Attention, intervention: Intervention) -> np.ndarray:
    """Return True where a block's mask lets its queries look, bool ``[query, key]``.

    True if any head may look (`visible_cells`). Without scores, zeros do not prove a mask if a
    temperature below 1 makes weights vanish. Then all keys are open, or under a causal pattern
    those up to the row.
    """
    heads = range(len(attention.weights) if intervention else 0)
    plans = [HeadPlan.at(intervention, replace(attention.site, head=head)) for head in heads]
    divided = np.array([plan.edit(Temperature) is not None for plan in plans])[:, None, None]
    seen = np.any(visible_cells(attention.weights, attention.scores, divided), axis=0)
    if attention.scores is not None or all(plan.temperature >= 1 for plan in plans):
        return seen
    past = np.tri(*seen.shape) > 0
    if attention.site.block == "cross" or seen[~past].any():
        past[:] = True
    return past


def rows_of(trace: Trace, attention: Attention, view: str) -> HeadRows:
    """Return one block of a trace as input of the measures."""
    query, key = trace.tokens(attention.query), trace.tokens(attention.key)
    return HeadRows(
        attention.weights,
        allowed_keys(attention, trace.intervention),
        np.array(query.special, bool),
        np.array(key.special, bool),
        key_ids=_ids(trace, key),
        cross=attention.site.block == "cross",
        view=view,
    )


def _ids(trace: Trace, key: Tokens) -> np.ndarray | None:
    """Return token ids, ``[key]``; None for vectors, patches and sounds.

    For given weights with strings only, equal strings are equal tokens.
    """
    if key.ids:
        return np.array(key.ids, np.int64)
    if trace.report.given:
        return np.unique(np.array(key.pieces), return_inverse=True)[1].astype(np.int64)
    return None


def blocks_of(trace: Trace, view: str) -> Iterator[tuple[Attention, HeadRows]]:
    """Yield every captured attention block of a trace, by map and layer.

    Raises:
        ValueError: Unknown view.
        LookupError: The trace has no weights.
    """
    if view not in VIEWS:
        raise ValueError(f"There is no view {view!r}; choose of {', '.join(VIEWS)}.")
    for name in trace.maps:
        for attention in trace.blocks(name):
            yield attention, rows_of(trace, attention, view)


def measured(site: Site, rows: HeadRows, draw: int | None = None) -> Block:
    """Return every measure of a block; with a ``draw`` also under the null (see `orders`)."""
    found = measure(Stacked.of(rows), None if draw is None else np.array([draw], np.uint64))
    own = _tallies(found.rows, found.total, found.squares)
    chance = _tallies(found.chance_rows, found.chance)
    null = {} if draw is None else _tallies(found.null_rows, found.null)
    own |= {"copying": copying(rows), "ov_copying": ov_copying(rows)}
    chance |= {"copying": copying_by_chance(rows), "ov_copying": ov_by_chance(rows)}
    shuffled = {one.name for one in MEASURES if one.shuffled}
    null = {name: tally for name, tally in null.items() if name in shuffled}
    return Block(site, len(rows.weights), own, chance, null)


def _tallies(
    rows: np.ndarray, total: np.ndarray, squares: np.ndarray | None = None
) -> dict[str, Tally]:
    """Return the tally of each measure of the first sentence of `Sums`."""
    parts = [total / GRID, rows.astype(np.float64), np.zeros(total.shape)]
    if squares is not None:
        parts[2] = squares / GRID
    found = {}
    for name, place in PLACES.items():
        mine = [part[0, :, place] for part in parts]  # [head, offset]
        found[name] = Tally(*(part[:, 0] if part.shape[1] == 1 else part for part in mine))
    return found


def names_of(table: pd.DataFrame) -> list[tuple[str, str, int, int]]:
    """Return the head of each row, as tuples."""
    return list(table[HEAD].itertuples(index=False, name=None))


def head_columns(blocks: Sequence[Block]) -> pd.DataFrame:
    """Return the columns that identify the head of each row."""
    names = [
        (block.site.stack, block.site.block, block.site.layer, head)
        for block in blocks
        for head in range(block.heads)
    ]
    return pd.DataFrame(names, columns=HEAD)


def table_of(sentences: Sequence[Sequence[Block]], seed: int | None = None) -> pd.DataFrame:
    """Return the table of one sentence, or with a seed of many, with intervals.

    Every sentence has the same blocks in the same order. Intervals are the 95 % bootstrap over
    sentences, NaN with fewer than two usable ones.
    """
    table = head_columns(sentences[0])
    draws = None if seed is None else reweightings(len(sentences), seed=seed)
    columns: dict[str, np.ndarray] = {}
    nulls: dict[str, list[float]] = {}
    for name in (one.name for one in MEASURES):
        sums, counts = _over(sentences, "own", name)
        columns[name], rows = settled(sums.sum(0), counts.sum(0))
        columns[f"{name}_rows"] = rows.astype(np.int64)
        columns[f"{name}_chance"] = _pooled(sentences, "chance", name)[0]
        if draws is None:
            continue
        low, high = interval(sums, counts, draws)
        columns[f"{name}_low"], columns[f"{name}_high"] = low, high
        if name in sentences[0][0].null:
            nulls[name] = _pooled(sentences, "null", name)[0].tolist()
    table = pd.concat([table, pd.DataFrame(columns)], axis=1)
    if draws is not None:
        table.attrs = {SENTENCES: len(sentences), NULL: {"heads": names_of(table), **nulls}}
    return table


def _over(
    sentences: Sequence[Sequence[Block]], kind: str, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and counts, ``[sentence, head, offset]``; most measures have one offset."""

    def all_of(part: str) -> np.ndarray:
        return np.stack(
            [
                np.concatenate(
                    [getattr(getattr(b, kind)[name], part).reshape(b.heads, -1) for b in sentence]
                )
                for sentence in sentences
            ]
        )

    return all_of("total"), all_of("rows")


def _pooled(
    sentences: Sequence[Sequence[Block]], kind: str, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and rows of each head over all sentences, ``[head]``."""
    sums, counts = _over(sentences, kind, name)
    return settled(sums.sum(0), counts.sum(0))


def interval(
    sums: np.ndarray, counts: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of each head, ``[head]``; draws without rows are left out."""
    again = (np.tensordot(draws, part, 1) for part in (sums, counts))
    means, _ = settled(*again)
    enough = (counts.max(-1) > 0).sum(0) >= 2
    low, high = np.full((2, means.shape[1]), np.nan)
    for head in np.flatnonzero(enough):
        known = means[:, head][np.isfinite(means[:, head])]
        low[head], high[head] = percentile_interval(known)
    return low, high
