"""Numbers about a trace: pure functions of plain arrays, each with a name, a unit and a law."""

from .compare import describe_row, entropy_change, output_changes, strongest_links
from .heads import METRICS, Metric, head_statistics
from .words import Axis, Regrouped, axis, merge_words, produced_axis, without_special

__all__ = [
    "METRICS",
    "Axis",
    "Metric",
    "Regrouped",
    "axis",
    "describe_row",
    "entropy_change",
    "head_statistics",
    "merge_words",
    "output_changes",
    "produced_axis",
    "strongest_links",
    "without_special",
]
