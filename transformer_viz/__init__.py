"""Show, verify and edit the attention of trained Transformers.

    import transformer_viz as tv
    model = tv.load("en-de")
    trace = tv.trace(model, "The cat sat.")
    trace.attention("cross", layer=1)      # [head, query, key]

Names are imported on first use (PEP 562), so importing the package is fast and loads neither torch
nor streamlit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import lazy
from .core.version import __version__ as __version__

if TYPE_CHECKING:
    from . import views as views
    from .bertviz.head_view import head_view as head_view
    from .bertviz.model_view import model_view as model_view
    from .bertviz.neuron_view import neuron_view as neuron_view
    from .capture import probe as probe
    from .checkpoints import available as available
    from .checkpoints import load as load
    from .checkpoints import propose_names as propose_names
    from .core.interventions import Intervention as Intervention
    from .core.trace import Trace as Trace
    from .given.building import from_attentions as from_attentions
    from .inference.ablation.ranking import rank as rank
    from .inference.comparison.sides import compare as compare
    from .inference.explanation.explaining import explain as explain
    from .inference.generation import translate as translate
    from .inference.head_metrics.pooled import metrics as metrics
    from .inference.matching import match as match
    from .inference.patching.swapping import swap as swap
    from .inference.tracing import trace as trace
    from .metrics.alignment.aligning import align as align
    from .metrics.head_measures.role_rules import roles as roles
    from .notebook.exploring import explore as explore

__all__ = [
    "Intervention",
    "Trace",
    "align",
    "available",
    "compare",
    "explain",
    "explore",
    "from_attentions",
    "head_view",
    "load",
    "match",
    "metrics",
    "model_view",
    "neuron_view",
    "probe",
    "propose_names",
    "rank",
    "roles",
    "swap",
    "trace",
    "translate",
    "views",
]


#: Module of each public name, in the order of the documentation. No module may have the name of a
#: public function: importing it would replace the function by the module. ``metrics`` is a callable
#: module.
__getattr__ = lazy(
    __name__,
    {
        "available": ".checkpoints",
        "load": ".checkpoints",
        "propose_names": ".checkpoints",
        "trace": ".inference.tracing",
        "from_attentions": ".given.building",
        "head_view": ".bertviz.head_view",
        "model_view": ".bertviz.model_view",
        "neuron_view": ".bertviz.neuron_view",
        "translate": ".inference.generation",
        "match": ".inference.matching",
        "metrics": ".metrics",
        "roles": ".metrics.head_measures.role_rules",
        "align": ".metrics.alignment.aligning",
        "probe": ".capture",
        "rank": ".inference.ablation.ranking",
        "explain": ".inference.explanation.explaining",
        "explore": ".notebook.exploring",
        "swap": ".inference.patching.swapping",
        "compare": ".inference.comparison.sides",
        "Intervention": ".core.interventions",
        "Trace": ".core.trace",
        "views": ".views",
    },
    kind="public names",
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
