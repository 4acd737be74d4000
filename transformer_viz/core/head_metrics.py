"""What is measured of every attention head: one entry in ``HEAD_METRICS`` a metric.

The probe computes the columns of ``trace.heads`` from these entries, row block by row block; the
atlas, its scripts and the link take names, order and texts from here. See docs/add-a-metric.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..i18n import mark


@dataclass(frozen=True)
class Rows:
    """Some query rows of one attention: float32 torch tensors, or numpy arrays.

    Metrics use what both kinds of arrays can do: operators, ``abs``, ``sum``, ``reshape``, slices.
    """

    weights: Any  #: ``[batch, head, query, key]``
    weights_and_sinks: Any  #: the same with learned sinks behind the keys, where there are any
    bits: Any  #: `numerics.weight_bits` of the weights and sinks
    query: Any  #: the rows' positions among the keys, ``[query, 1]``
    key: Any  #: the keys' positions from 0, ``[key]``
    distances: Any  #: ``|query - key|``, ``[query, key]``


@dataclass(frozen=True)
class HeadMetric:
    """A number about a head: how it is made, and how it is told.

    ``of_rows`` gives ``[batch, head, ...]`` for some query rows: one number a row, a weight, or
    already one a head. Where ``combined`` is ``mean``, they are added and divided by the number of
    query rows; where it is ``max``, the largest counts.

    The texts are marked for translation: ``title`` stands in the menu "sort", ``heading`` over the
    table's column (left out, the title), ``ranked`` in the legend of heads in that order. A few
    are told of each head too: ``heard`` in the atlas, with ``{numbers}`` of both runs or the
    ``{number}`` of the present one; ``below_map`` under a map, with ``{numbers}``.
    """

    name: str  #: the column in ``trace.heads``, and the key in the link
    unit: str  #: "bits", "tokens"; empty for a share or a weight
    combined: Literal["mean", "max"]
    of_rows: Callable[[Rows], Any]
    title: str = ""  #: without one, the metric is in ``trace.heads`` only
    heading: str = ""
    ranked: str = ""
    heard: str = ""
    below_map: str = ""
    digits: int = 2  #: decimals that are written


def _entropy(rows: Rows) -> Any:
    """How widely a head looks: ``-sum w log2 w`` of a row (Shannon 1948)."""
    return 0.0 - rows.bits.sum((-1, -2))


def _distance(rows: Rows) -> Any:
    """How far away a head looks: ``sum w |query - key|`` of a row."""
    flat = rows.weights.reshape(*rows.weights.shape[:2], -1)
    return flat @ rows.distances.reshape(-1)


def _weights(rows: Rows) -> Any:
    return rows.weights_and_sinks


def _first_key(rows: Rows) -> Any:
    """The attention sink: the share of its weight that a query parks on the first token."""
    return rows.weights_and_sinks[..., 0]


def _row_sum_error(rows: Rows) -> Any:
    """How far a row is from a distribution."""
    return abs(rows.weights_and_sinks.sum(-1) - 1)


#: Every head metric, in the order of the columns of ``trace.heads`` and of the atlas's menu.
HEAD_METRICS: tuple[HeadMetric, ...] = (
    HeadMetric(
        "entropy",
        "bits",
        "mean",
        _entropy,
        title=mark("entropy"),
        heading=mark("entropy, bits"),
        ranked=mark("ranked by entropy, highest first"),
        heard=mark("entropy {numbers} bits"),
        below_map=mark("entropy {numbers} bits"),
    ),
    HeadMetric(
        "distance",
        "tokens",
        "mean",
        _distance,
        title=mark("distance"),
        heading=mark("distance, tokens"),
        ranked=mark("ranked by distance, highest first"),
        heard=mark("distance {number} tokens"),
        below_map=mark("mean distance {numbers} tokens"),
    ),
    HeadMetric(
        "max",
        "",
        "max",
        _weights,
        title=mark("largest weight"),
        ranked=mark("ranked by largest weight, highest first"),
    ),
    HeadMetric(
        "sink",
        "",
        "mean",
        _first_key,
        title=mark("sink"),
        heading=mark("on the first word"),
        ranked=mark("ranked by weight on the first word, highest first"),
    ),
    HeadMetric("row_sum_error", "", "max", _row_sum_error),
)


def shown_metrics() -> tuple[HeadMetric, ...]:
    """Those by which heads can be ranked: all that have a title."""
    return tuple(metric for metric in HEAD_METRICS if metric.title)
