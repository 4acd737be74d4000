"""Runs of the page Heads: all heads measured over sentences, and ranked by removal.

Plain functions of a model, which import torch when called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...inference.head_means import HeadMeans
    from ...metrics.head_measures.evidence import HeadEvidence

#: Sentence, or pair of source and target; texts or ids.
Item = str | tuple[Any, ...]
ORDERS = ("most", "least", "random")


def measured(
    model: Model, sentences: tuple[Item, ...], on_progress: Callable[[int, int], None]
) -> HeadEvidence:
    """Return the measures of every head, its roles, and the sentences that show them."""
    from ...inference.head_metrics.evidence import evidence

    return evidence(model, list(sentences), lambda done, of, _: on_progress(done, of))


@dataclass(frozen=True, eq=False)
class Removals:
    """Ranking of heads by removal.

    Attributes:
        table: One row per head.
        card: Card of the measurement.
        notes: Remarks to show with the ranking.
        means: Outputs that replaced the removed heads, if these are means that no file has; else
            None.
        by_class: Effects in each class of a classifier, or None.
    """

    table: pd.DataFrame
    card: dict[str, Any]
    notes: tuple[str, ...]
    means: HeadMeans | None = None
    by_class: pd.DataFrame | None = None


def ranked(
    model: Model, sentences: tuple[Item, ...], method: str, on_progress: Callable[[int, int], None]
) -> Removals:
    """Return all heads ranked by the cost of their removal on these sentences."""
    from ...inference.ablation.ranking import rank

    found = rank(
        model, list(sentences), method, on_progress=lambda done, of, _: on_progress(done, of)
    )
    means = found.means if method == "mean" else None
    by_class = None if found.by_row is None else found.by_class
    card = found.card | {"constant": [str(site) for site in found.bench.constant]}
    return Removals(found.table, card, found.notes, means, by_class)


@dataclass(frozen=True, eq=False)
class Together:
    """Heads removed together: pairs of the strongest, groups, and curves by order."""

    pairs: pd.DataFrame
    groups: pd.DataFrame
    curves: dict[str, pd.DataFrame]
    card: dict[str, Any]


#: Name, and heads that are removed together.
Group = tuple[str, tuple[tuple[str, str, int, int], ...]]


def together(
    model: Model,
    sentences: tuple[Item, ...],
    method: str,
    roles: tuple[Group, ...],
    on_progress: Callable[[int, int], None],
) -> Together:
    """Measure heads removed together, which single removals do not determine.

    ``roles`` are further groups besides blocks and layers; their names are the column ``role``.
    """
    from ...inference.ablation.ranking import rank

    parts = 3 + len(ORDERS)
    found = rank(
        model,
        list(sentences),
        method,
        on_progress=lambda done, of, _: on_progress(done, max(1, of) * parts),
    )
    on_progress(1, parts)
    pairs = found.pairs
    on_progress(2, parts)
    named = [found.group(heads).rename(role) for role, heads in roles]
    groups = found.groups
    if named:
        table = pd.DataFrame(named).rename_axis("role").reset_index()
        groups = pd.concat([table.astype({"heads": int}), groups], ignore_index=True)
    curves = {}
    for number, order in enumerate(ORDERS, 3):
        on_progress(number, parts)
        curves[order] = found.curve(order, 6)
    return Together(pairs, groups, curves, found.card)


@dataclass(frozen=True, eq=False)
class SmallMap:
    """Map of a head on a sentence: ``weights`` ``[row, column]``, and the labels of both axes."""

    weights: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def maps_of(
    model: Model,
    sentences: tuple[Item, ...],
    block: str,
    layer: int,
    head: int,
    on_progress: Callable[[int, int], None],
) -> tuple[SmallMap, ...]:
    """Return the map of one head on each of some sentences."""
    from ...inference.model_inputs import source_and_target
    from ...inference.tracing import trace
    from ...metrics.attention.map_cells import cells

    found = []
    for number, item in enumerate(sentences):
        on_progress(number, len(sentences))
        source, target = source_and_target(model, item)
        run = trace(model, source, target, check=False)
        one = cells(run, block, layer, head)
        found.append(SmallMap(one.weights, one.rows.labels, one.columns.labels))
    return tuple(found)
