"""Pictures: pure functions from a trace to a plotly figure, or to a small piece of HTML.

The first line of each view's module is the question that it answers. A view is fetched when it is
first used, so a page of HTML needs no plotly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .picture import Picture

if TYPE_CHECKING:
    from .atlas import atlas as atlas
    from .candidates import candidates as candidates
    from .curves import curves as curves
    from .gain_bias import gain_bias as gain_bias
    from .head_cost import head_cost as head_cost
    from .head_map import head_map as head_map
    from .lines import lines as lines
    from .norm_map import norm_map as norm_map
    from .outcome import outcome as outcome
    from .over_image import over_image as over_image
    from .position_shift import position_shift as position_shift
    from .position_similarity import position_similarity as position_similarity
    from .position_table import position_table as position_table
    from .position_waves import position_waves as position_waves
    from .printed import printed as printed
    from .report import report as report
    from .stream_length import stream_length as stream_length
    from .vector_change import vector_change as vector_change
    from .wavelengths import wavelengths as wavelengths

    VIEWS: tuple[View, ...]

#: Every view, in the order in which the reader meets them; its module has its name.
NAMES = (
    "atlas",
    "head_map",
    "lines",
    "over_image",
    "outcome",
    "candidates",
    "vector_change",
    "position_table",
    "position_similarity",
    "wavelengths",
    "position_waves",
    "position_shift",
    "norm_map",
    "stream_length",
    "gain_bias",
)
#: What puts several views together, or one on paper, or draws numbers that are no trace.
FURTHER = ("report", "printed", "curves", "head_cost")
__all__ = ["VIEWS", "Picture", "View", *NAMES, *FURTHER]


@dataclass(frozen=True)
class View:
    """A picture by name, the question it answers, and how it is drawn."""

    name: str
    question: str
    draw: Callable[..., Any]


class _Views(ModuleType):
    """The package, in which a view's name is always the view and never its module."""

    def __setattr__(self, name: str, value: Any) -> None:
        own = name in (*NAMES, *FURTHER) and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if own else value)


sys.modules[__name__].__class__ = _Views


def __getattr__(name: str) -> Any:
    if name == "VIEWS":
        return tuple(map(_view, NAMES))
    if name not in (*NAMES, *FURTHER):
        raise AttributeError(f"There is no view {name!r}; there are {', '.join(NAMES)}.")
    return getattr(import_module(f".{name}", __name__), name)


def _view(name: str) -> View:
    module = import_module(f".{name}", __name__)
    return View(name, (module.__doc__ or "").partition("\n")[0], getattr(module, name))


def __dir__() -> list[str]:
    return sorted(__all__)
