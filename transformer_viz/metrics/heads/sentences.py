"""All metrics of one input, and of many: pooled values, chance, intervals, a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from .maps import Maps
from .moments import Moments, nothing
from .registry import METRICS, Metric
from .where import OFFSETS
from .words import TOP

DRAWS = 1000  # of the bootstrap over sentences
ORDERS = 3  # in which ids or rows are shuffled for the null
FEW = 5  # sentences: with fewer, an interval would say more than is known


@dataclass(frozen=True, eq=False)
class Measured:
    """One metric of the heads of one input: itself, of a uniform head, and under the null."""

    value: Moments
    chance: Moments
    null: Moments | None


def together(parts: Sequence[dict[str, Measured]], order: np.ndarray) -> dict[str, Measured]:
    """Heads of several groups as one, in this order of all of them."""

    def joined(found: Sequence[Moments]) -> Moments:
        columns = zip(*(_parts(one) for one in found), strict=True)
        return Moments(*(np.concatenate(column)[order] for column in columns))

    made: dict[str, Measured] = {}
    for name in parts[0]:
        found = [part[name] for part in parts]
        nulls = [one.null for one in found if one.null is not None]
        made[name] = Measured(
            joined([one.value for one in found]),
            joined([one.chance for one in found]),
            joined(nulls) if nulls else None,
        )
    return made


def measured(maps: Maps, seed: Sequence[int] | None = None) -> dict[str, Measured]:
    """Every metric of the heads of one input, by name.

    ``seed`` makes the orders of the null (left out, there is none); the same for all heads.
    """
    uniform = maps.uniform()
    found: dict[str, Measured] = {}
    for metric in METRICS:
        value = metric.measure(maps)
        null = None
        if seed is not None and metric.null in ("ids", "rows"):
            null = _null(metric, maps, value, seed)
        found[metric.name] = Measured(value, _chance(metric, uniform, value), null)
    return found


def _chance(metric: Metric, uniform: Maps, value: Moments) -> Moments:
    """Of a uniform head, for each head; where that asks no row, what the metric says of itself."""
    if metric.chance == "uniform":
        found = metric.measure(uniform)
        return Moments(*(np.broadcast_to(part, value.sum.shape) for part in _parts(found)))
    table = uniform.beyond.unembedding
    each = 0.0 if metric.chance == "zero" or table is None else TOP / len(table)
    return Moments(each * value.count, value.count, each * each * value.count)


def _null(metric: Metric, maps: Maps, value: Moments, seed: Sequence[int]) -> Moments:
    """The same metric, ids or rows in another order."""
    total = nothing(value.sum.shape)
    rng = np.random.default_rng(list(seed))
    for _ in range(ORDERS):
        order = rng.random(max(maps.visible.shape))
        shuffled = (maps.shuffled_ids if metric.null == "ids" else maps.shuffled_rows)(order)
        total = total + metric.measure(shuffled)
    return total


def _parts(moments: Moments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return moments.sum, moments.count, moments.squares


def table_of_heads(
    places: pd.DataFrame, inputs: Sequence[dict[str, Measured]], *, pooled: bool, seed: int = 0
) -> pd.DataFrame:
    """The table: the heads' places, then each metric's value, rows and chance.

    Args:
        places: ``stack, block, layer, head``, a row a head.
        inputs: of each input every metric of all these heads, in this order.
        pooled: also ``m_low`` and ``m_high``, the 95 % interval over sentences; for metrics that
            can give a role ``m_null``, and ``m_p``, how probable it is not to lie above it.
        seed: of the bootstrap.
    """
    columns: dict[str, np.ndarray] = {}
    weights = drawn(len(inputs), seed) if pooled else None
    for metric in METRICS:
        columns |= _columns(metric, [one[metric.name] for one in inputs], weights)
    return pd.concat([places.reset_index(drop=True), pd.DataFrame(columns)], axis=1)


def drawn(sentences: int, seed: int) -> np.ndarray:
    """How often each draw of the bootstrap takes each sentence, ``[draw, sentence]``."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(sentences, np.full(sentences, 1 / sentences), DRAWS).astype(np.float64)


def _columns(
    metric: Metric, found: Sequence[Measured], weights: np.ndarray | None
) -> dict[str, np.ndarray]:
    name, values = metric.name, [one.value for one in found]
    value, place = metric.finish(*_pooled(values))
    made = {name: value, f"{name}_rows": _rows(_pooled(values)[1], place)}
    made[f"{name}_chance"], _ = metric.finish(*_pooled([one.chance for one in found]))
    if place is not None:
        made[f"{name}_offset"] = np.where(np.isnan(value), np.nan, OFFSETS[place])
    if weights is None:
        return made
    draws = _drawn(metric, values, weights)
    made[f"{name}_low"], made[f"{name}_high"] = interval(draws, _sentences(values))
    if metric.null:
        nulls = [one.chance if one.null is None else one.null for one in found]
        null, _ = metric.finish(*_pooled(nulls))
        under = _drawn(metric, nulls, weights)
        # Where no order asks a row, chance stands for the null.
        null = np.where(np.isnan(null), made[f"{name}_chance"], null)
        under = np.where(np.isnan(under), null, under)
        made[f"{name}_null"] = null
        made[f"{name}_p"] = _p(value - null, draws - under, _sentences(values))
    return made


def _pooled(parts: Sequence[Moments]) -> tuple[np.ndarray, np.ndarray]:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total.sum, total.count


def _rows(count: np.ndarray, place: np.ndarray | None) -> np.ndarray:
    """The rows counted; of offsets those of the one that was chosen."""
    return count if place is None else np.take_along_axis(count, place[:, None], 1)[:, 0]


def _sentences(parts: Sequence[Moments]) -> np.ndarray:
    """How many sentences asked a row, ``[head]``."""
    counts = np.stack([part.count.reshape(len(part.count), -1).sum(1) for part in parts])
    return (counts > 0).sum(0)


def _drawn(metric: Metric, parts: Sequence[Moments], weights: np.ndarray) -> np.ndarray:
    """The metric of each draw of sentences, ``[draw, head]``."""
    sums = np.tensordot(weights, np.stack([part.sum for part in parts]), 1)
    counts = np.tensordot(weights, np.stack([part.count for part in parts]).astype(np.float64), 1)
    return metric.finish(sums, counts)[0]


def interval(draws: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 2.5 and 97.5 % points of draws ``[draw, head]``; NaN with fewer than 5 sentences."""
    known = sentences >= FEW
    safe = np.where(known, draws, 0.0)
    low, high = np.nanpercentile(safe, [2.5, 97.5], axis=0)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def _p(excess: np.ndarray, draws: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """How probable an excess over the null of 0 or less is, one-sided.

    Normal, with the standard error of the paired draws: a thousand of them alone could not tell
    probabilities as small as Holm asks of a hundred heads.
    """
    error = np.nanstd(np.where(sentences >= FEW, draws, 0.0), axis=0)
    z = np.where(error > 1e-9, excess / np.maximum(error, 1e-9), np.sign(excess) * 40.0)
    p = np.array([0.5 * math.erfc(one / math.sqrt(2)) for one in np.nan_to_num(z)])
    return np.where((sentences >= FEW) & ~np.isnan(excess), p, np.nan)
