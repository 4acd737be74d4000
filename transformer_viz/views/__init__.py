"""Pictures: pure functions from a trace to a plotly figure, or to a small piece of HTML.

The first line of each view's module is the question that it answers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .head_map import head_map
from .outcome import outcome
from .overview import overview
from .picture import Picture

__all__ = ["VIEWS", "Picture", "View", "head_map", "outcome", "overview"]


@dataclass(frozen=True)
class View:
    """A picture by name, the question it answers, and how it is drawn."""

    name: str
    question: str
    draw: Callable[..., Any]


def _view(draw: Callable[..., Any]) -> View:
    words = sys.modules[draw.__module__].__doc__ or ""
    return View(draw.__name__, words.partition("\n")[0], draw)


#: Every view, in the order in which the reader meets them.
VIEWS: tuple[View, ...] = (_view(overview), _view(head_map), _view(outcome))
