"""Numbers about a trace: pure functions of plain arrays, each with a name, a unit and a law.

The package is also the public function ``tv.metrics``: what each head does.
"""

import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import Any

from ..core import head_metrics
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

#: Names of 0.1.0: they open with a warning for one minor release.
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


class _Metrics(ModuleType):
    """This package, which can be called.

    Importing a package puts it into its parent under its own name, so ``tv.metrics`` is this module
    as soon as anyone imports it, whatever the parent had there. That the same name is a public
    function is kept true by the module's class (a module's ``__class__`` may be set, Python 3.5);
    the function itself runs models, stands floors above, and is fetched when it is called.
    """

    def __call__(
        self,
        thing: Any,
        sentences: Any = None,
        tell: Any = None,
        *,
        view: str = "content",
        seed: int = 0,
    ) -> Any:
        home = import_module("..inference.evidence.head_metrics", __name__)
        return home.metrics(thing, sentences, tell, view=view, seed=seed)


sys.modules[__name__].__class__ = _Metrics
