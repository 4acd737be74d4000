"""Measures of a trace: pure functions of plain arrays, each with a name, a unit and a definition.

The package is callable: ``tv.metrics(trace)`` or ``tv.metrics(model, sentences)`` returns the table
of head measures; see :func:`transformer_viz.inference.head_metrics.pooled.metrics`.
"""

import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core import head_metrics
from ..core.renamed import accept_old_keywords
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

if TYPE_CHECKING:
    import pandas as pd

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

#: Names of 0.1.0, which warn for one minor release.
RENAMED = {"METRICS": "HEAD_METRICS", "Metric": "HeadMetric"}


def __getattr__(name: str) -> Any:
    if name not in RENAMED:
        raise AttributeError(f"{__name__} has no {name!r}; its names are {', '.join(__all__)}.")
    warnings.warn(
        f"{__name__}.{name} is core.head_metrics.{RENAMED[name]} now and computes by rows (whole "
        "matrices: head_statistics); the old name goes with the next minor release.",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(head_metrics, RENAMED[name])


class _CallableRoom(ModuleType):
    """Package that is also the public function ``tv.metrics``."""

    @accept_old_keywords(tell="on_progress")
    def __call__(
        self,
        thing: Any,
        sentences: Any = None,
        on_progress: Any = None,
        *,
        view: str = "content",
        seed: int = 0,
    ) -> "pd.DataFrame":
        """Call :func:`transformer_viz.inference.head_metrics.pooled.metrics`."""
        from ..inference.head_metrics.pooled import metrics  # torch, when it is called

        return metrics(thing, sentences, on_progress, view=view, seed=seed)


# Importing ``transformer_viz.metrics`` binds the name ``metrics`` of the package to this module, so
# a function of that name would be lost. Python allows changing a module's class (its data model,
# "Customizing module attribute access"), so both are one object.
sys.modules[__name__].__class__ = _CallableRoom
