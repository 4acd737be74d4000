"""Metrics of attention heads: one entry in ``HEAD_METRICS`` per metric.

The probe computes the columns of ``trace.heads`` from these entries, row block by row block. The
atlas, its scripts and links use their names, order and texts. See docs/add-a-metric.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..i18n import mark


@dataclass(frozen=True)
class Rows:
    """Query rows of one attention: float32 torch tensors, or numpy arrays.

    Metrics use only operations common to both: operators, ``abs``, ``sum``, ``reshape``, slices.
    """

    weights: Any  #: ``[batch, head, query, key]``
    weights_and_sinks: Any  #: the same, followed by learned sinks, if any
    bits: Any  #: `numerics.weight_bits` of the weights and sinks
    query: Any  #: the rows' positions among the keys, ``[query, 1]``
    key: Any  #: the keys' positions from 0, ``[key]``
    distances: Any  #: ``|query - key|``, ``[query, key]``


@dataclass(frozen=True)
class HeadMetric:
    """Definition of a head metric: its computation and its texts.

    ``of_rows`` returns ``[batch, head, ...]`` for some query rows: one number per row, per weight,
    or per head. With ``combined`` ``mean`` they are added and divided by the number of query rows.
    With ``max`` the largest is kept.

    Texts are marked for translation. ``title`` is the entry of the menu "sort", ``heading`` that of
    the table's column (default: the title), ``ranked`` the legend of heads in that order. Some
    metrics also have texts for a single head. ``heard`` is used in the atlas, with ``{numbers}`` of
    both runs or the ``{number}`` of the current one; ``below_map`` under a map, with ``{numbers}``.
    """

    name: str  #: the column in ``trace.heads``, and the key in the link
    unit: str  #: "bits", "tokens"; empty for a share or a weight
    combined: Literal["mean", "max"]
    of_rows: Callable[[Rows], Any]
    title: str = ""  #: metrics without a title are in ``trace.heads`` only
    heading: str = ""
    ranked: str = ""
    heard: str = ""
    below_map: str = ""
    digits: int = 2  #: decimals in texts


def _entropy(rows: Rows) -> Any:
    """Return the entropy of the rows: ``-sum w log2 w`` (Shannon 1948)."""
    return 0.0 - rows.bits.sum((-1, -2))


def _distance(rows: Rows) -> Any:
    """Return the mean attention distance of the rows: ``sum w |query - key|``."""
    flat = rows.weights.reshape(*rows.weights.shape[:2], -1)
    return flat @ rows.distances.reshape(-1)


def _weights(rows: Rows) -> Any:
    return rows.weights_and_sinks


def _first_key(rows: Rows) -> Any:
    """Return the attention sink: the share of weight that a query puts on the first token."""
    return rows.weights_and_sinks[..., 0]


def _row_sum_error(rows: Rows) -> Any:
    """Return the deviation of row sums from 1."""
    return abs(rows.weights_and_sinks.sum(-1) - 1)


#: All head metrics, in the order of the columns of ``trace.heads`` and of the atlas's menu.
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
    """Return the metrics by which heads can be ranked: all with a title."""
    return tuple(metric for metric in HEAD_METRICS if metric.title)
