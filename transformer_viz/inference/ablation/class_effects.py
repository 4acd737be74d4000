"""What the removal of each head costs, class by class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ...core.tasks import ENDS
from ...metrics.statistics import bootstrap

if TYPE_CHECKING:
    from .ranking import Ranking


def class_table(ranking: Ranking) -> pd.DataFrame:
    """Return the rows of `Ranking.by_class`."""
    effects, bench = ranking.by_row, ranking.bench
    assert effects is not None
    items = bench.examples.items
    answers = bench.model.gives == "spans"
    asked = [(n, row if answers else token) for n, item in enumerate(items)
             for row, token in zip(item.rows, item.wanted, strict=True)]  # fmt: skip
    owner, classes = (np.array(column) for column in zip(*asked, strict=True))
    names = ENDS if answers else bench.model.labels
    parts = []
    for number in np.unique(classes):
        own = classes == number
        sentences, place = np.unique(owner[own], return_inverse=True)
        sums = np.zeros((len(sentences), effects.shape[1]))
        np.add.at(sums, place, effects[own])
        counts = np.bincount(place)
        effect = bootstrap.pooled_means(sums, counts)
        weights = bootstrap.reweightings(len(counts), seed=bench.seed)
        low, high = bootstrap.percentile_interval(bootstrap.pooled_means(sums, counts, weights))
        part = pd.DataFrame(
            {
                "class": int(number),
                "label": names[number] if number < len(names) else str(number),
                "stack": [site.stack for site in ranking.heads],
                "block": [site.block for site in ranking.heads],
                "layer": [site.layer for site in ranking.heads],
                "head": [site.head for site in ranking.heads],
                "effect": effect,
                "low": low,
                "high": high,
                "rank": bootstrap.ranks(effect),
                "rows": int(own.sum()),
                "unit": ranking.unit,
            }
        )
        parts.append(part.sort_values("rank", kind="stable"))
    return pd.concat(parts, ignore_index=True)
