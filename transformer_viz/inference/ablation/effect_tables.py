"""Tables of ablation effects: per head, and per head and class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...core.numerics import ENDS, REGRESSION, unit_of
from ...core.sites import Site
from ...metrics.statistics import bootstrap
from ...metrics.statistics.significance import bootstrap_p, holm
from .bench import Bench
from .scores import Costs

ALPHA = 0.05
ROUNDING = 1e-6  # nats per token; smaller effects come from the summation order in float32


def class_table(bench: Bench, effects: np.ndarray) -> pd.DataFrame:
    """Return the rows of `Ranking.by_class` from the effects ``[asked, head]``."""
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
                "stack": [site.stack for site in bench.heads],
                "block": [site.block for site in bench.heads],
                "layer": [site.layer for site in bench.heads],
                "head": [site.head for site in bench.heads],
                "effect": effect,
                "low": low,
                "high": high,
                "rank": bootstrap.ranks(effect),
                "rows": int(own.sum()),
                "unit": bench.model.unit,
            }
        )
        parts.append(part.sort_values("rank", kind="stable"))
    return pd.concat(parts, ignore_index=True)


def head_table(
    heads: Sequence[Site],
    costs: Costs,
    counts: np.ndarray,
    done: np.ndarray,
    seed: int,
    task: str = "",
) -> pd.DataFrame:
    """Return the table of a `Ranking` from the finished sentences ``done``, bool ``[sentence]``."""
    sums, tokens = costs.effect[done], counts[done]
    effect = bootstrap.pooled_means(sums, tokens)
    weights = bootstrap.reweightings(len(tokens), seed=seed)
    draws = bootstrap.pooled_means(sums, tokens, weights)
    low, high = bootstrap.percentile_interval(draws)
    best, worst = bootstrap.rank_interval(draws)
    told = holm(bootstrap_p(effect, draws, len(tokens))) < ALPHA
    told &= np.abs(effect) >= ROUNDING
    table = pd.DataFrame(
        {
            "stack": [site.stack for site in heads],
            "block": [site.block for site in heads],
            "layer": [site.layer for site in heads],
            "head": [site.head for site in heads],
            "effect": effect,
            "low": low,
            "high": high,
            "rank": bootstrap.ranks(effect),
            "rank_low": best,
            "rank_high": worst,
            "kl": bootstrap.pooled_means(costs.kl[done], tokens),
            "changed": bootstrap.pooled_means(costs.changed[done], tokens),
            "significant": told,
            "unit": unit_of(task),
        }
    )
    if task == REGRESSION:
        table["moved"] = bootstrap.pooled_means(costs.moved[done], tokens)
    return table.sort_values("rank", ignore_index=True)
