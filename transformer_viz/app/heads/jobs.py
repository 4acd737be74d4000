"""The runs behind Heads: every head measured over sentences, and ranked by removal.

Plain functions of a model, which import torch when they run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from ...checkpoints import Model
    from ...metrics.head_measures.evidence import HeadEvidence

#: A sentence, or a pair of source and target: texts, or ids.
Item = str | tuple[Any, ...]
ORDERS = ("most", "least", "random")


def measured(
    model: Model, sentences: tuple[Item, ...], tell: Callable[[int, int], None]
) -> HeadEvidence:
    """The measures of every head, its roles, and the sentences that show them."""
    from ...inference.head_metrics.evidence import evidence

    return evidence(model, list(sentences), tell)


@dataclass(frozen=True, eq=False)
class Removals:
    """A ranking by removal: its table, the card, and what must be said beside it."""

    table: pd.DataFrame
    card: dict[str, Any]
    notes: tuple[str, ...]


def ranked(
    model: Model, sentences: tuple[Item, ...], method: str, tell: Callable[[int, int], None]
) -> Removals:
    """All heads by what the removal of each costs on these sentences."""
    from ...inference.ablation.ranking import rank

    found = rank(model, list(sentences), method, tell=lambda done, of, _: tell(done, of))
    return Removals(found.table, found.card, found.notes)


@dataclass(frozen=True, eq=False)
class Together:
    """Heads removed together: pairs of the strongest, groups, and curves by their order."""

    pairs: pd.DataFrame
    groups: pd.DataFrame
    curves: dict[str, pd.DataFrame]


def together(
    model: Model, sentences: tuple[Item, ...], method: str, tell: Callable[[int, int], None]
) -> Together:
    """What heads cost together, which the removal of each alone does not tell."""
    from ...inference.ablation.ranking import rank

    parts = 3 + len(ORDERS)
    found = rank(
        model, list(sentences), method, tell=lambda done, of, _: tell(done, max(1, of) * parts)
    )
    tell(1, parts)
    pairs = found.pairs
    tell(2, parts)
    groups = found.groups
    curves = {}
    for number, order in enumerate(ORDERS, 3):
        tell(number, parts)
        curves[order] = found.curve(order, 6)
    return Together(pairs, groups, curves)
