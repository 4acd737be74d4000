"""Numbers about a trace: pure functions of plain arrays, each with a name, a unit and a law."""

from .compare import describe_row, output_changes, statistic_change, strongest_links, vector_changes
from .heads import METRICS, Metric, head_statistics
from .words import Axis, Regrouped, axis, merge_words, produced_axis, without_special

__all__ = [
    "METRICS",
    "Axis",
    "Metric",
    "Regrouped",
    "axis",
    "describe_row",
    "head_statistics",
    "merge_words",
    "output_changes",
    "produced_axis",
    "statistic_change",
    "strongest_links",
    "vector_changes",
    "without_special",
]
