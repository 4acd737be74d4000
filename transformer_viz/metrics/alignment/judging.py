"""Evaluation of every map of a run against gold: heads, means per layer, and mean of all."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from ...core.trace import Trace
from .error_rate import Gold, LinkCounts, counted
from .linking import SHIFTS, by_words, links_of
from .walking import mean_map


class Place(NamedTuple):
    """Map of a run; None stands for the mean over all layers or heads."""

    layer: int | None = None
    head: int | None = None


def places(run: Trace) -> list[tuple[Place, str]]:
    """Return every evaluated map with both shifts: heads, means per layer, and mean of all."""
    maps = [
        Place(block.site.layer, head)
        for block in run.blocks("cross")
        for head in (*range(len(block.weights)), None)
    ]
    return [(place, shift) for place in [*maps, Place()] for shift in SHIFTS]


def judged(run: Trace, gold: Gold) -> list[LinkCounts]:
    """Return the link counts of every map of `places` against the gold of one sentence."""
    target = run.tokens("target")
    maps = (by_words(mean_map(run, *p), run.source, target, shift) for p, shift in places(run))
    return [counted(links_of(merged), gold) for merged in maps]


def judged_table(run: Trace, gold: Gold) -> pd.DataFrame:
    """Return a table with a row per map and shift, the lowest error first.

    Columns are layer, head (missing: the mean), shift, ``error_rate`` (M16), and its counts. A
    single sentence gives only a rough estimate.
    """
    rows = [
        (place.layer, place.head, shift, counts.error_rate, *counts)
        for (place, shift), counts in zip(places(run), judged(run, gold), strict=True)
    ]
    names = ["layer", "head", "shift", "error_rate", *LinkCounts._fields]
    table = pd.DataFrame(rows, columns=names).astype({"layer": "Int64", "head": "Int64"})
    return table.sort_values("error_rate", kind="stable", ignore_index=True)
