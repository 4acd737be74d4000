"""Pictures: pure functions from a trace to a plotly figure, or to a small piece of HTML.

The first line of each view's module is the question that the view answers. A view is imported on
first use, so a page of HTML needs no plotly.

May import metrics, components, core and i18n; never torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.lazy import lazy
from .html.picture import Picture

if TYPE_CHECKING:
    from .charts.curves import curves as curves
    from .charts.gain_bias import gain_bias as gain_bias
    from .charts.head_cost import head_cost as head_cost
    from .charts.head_map import head_map as head_map
    from .charts.norm_map import norm_map as norm_map
    from .charts.over_image import over_image as over_image
    from .charts.position_shift import position_shift as position_shift
    from .charts.position_similarity import position_similarity as position_similarity
    from .charts.position_table import position_table as position_table
    from .charts.position_waves import position_waves as position_waves
    from .charts.stream_length import stream_length as stream_length
    from .charts.wavelengths import wavelengths as wavelengths
    from .evidence.compared_heads import compared_atlas as compared_atlas
    from .evidence.compared_heads import compared_map as compared_map
    from .evidence.measure_grid import measure_grid as measure_grid
    from .evidence.sentence_counts import sentence_counts as sentence_counts
    from .evidence.swap_grid import swap_grid as swap_grid
    from .export.atlas import atlas as atlas
    from .export.html_report import report as report
    from .export.lines import lines as lines
    from .html.candidate_bars import candidates as candidates
    from .html.probability_bars import outcome as outcome
    from .html.vector_change import vector_change as vector_change
    from .paper.figure_file import printed as printed

    VIEWS: tuple[View, ...]

#: Every view and its module, in the order in which the reader meets them.
VIEW_MODULES = {
    "atlas": ".export.atlas",
    "head_map": ".charts.head_map",
    "lines": ".export.lines",
    "over_image": ".charts.over_image",
    "outcome": ".html.probability_bars",
    "candidates": ".html.candidate_bars",
    "vector_change": ".html.vector_change",
    "position_table": ".charts.position_table",
    "position_similarity": ".charts.position_similarity",
    "wavelengths": ".charts.wavelengths",
    "position_waves": ".charts.position_waves",
    "position_shift": ".charts.position_shift",
    "norm_map": ".charts.norm_map",
    "stream_length": ".charts.stream_length",
    "gain_bias": ".charts.gain_bias",
}
#: Combinations of several views, figures for print, and charts of numbers that are no trace.
FURTHER_MODULES = {
    "report": ".export.html_report",
    "printed": ".paper.figure_file",
    "curves": ".charts.curves",
    "head_cost": ".charts.head_cost",
    "measure_grid": ".evidence.measure_grid",
    "sentence_counts": ".evidence.sentence_counts",
    "swap_grid": ".evidence.swap_grid",
    "compared_atlas": ".evidence.compared_heads",
    "compared_map": ".evidence.compared_heads",
}
__all__ = ["VIEWS", "Picture", "View", *VIEW_MODULES, *FURTHER_MODULES]


@dataclass(frozen=True)
class View:
    """View by name, with the question that it answers and its drawing function."""

    name: str
    question: str
    draw: Callable[..., Any]


_fetch = lazy(__name__, VIEW_MODULES | FURTHER_MODULES, kind="views")


def __getattr__(name: str) -> Any:
    return tuple(map(_view, VIEW_MODULES)) if name == "VIEWS" else _fetch(name)


def _view(name: str) -> View:
    module = import_module(VIEW_MODULES[name], __name__)
    return View(name, (module.__doc__ or "").partition("\n")[0], getattr(module, name))


def __dir__() -> list[str]:
    return sorted(__all__)
