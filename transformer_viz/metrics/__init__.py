"""Numbers about a trace: pure functions of plain arrays, each with a name, a unit and a law."""

from .attention.head_statistics import head_statistics
from .attention.word_merging import (
    Axis,
    Regrouped,
    axis,
    merge_words,
    produced_axis,
    without_special,
)
from .output.run_changes import (
    describe_row,
    output_changes,
    statistic_change,
    strongest_links,
    vector_changes,
)

__all__ = [
    "Axis",
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
