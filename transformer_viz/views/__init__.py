"""Pictures: pure functions from a trace to a plotly figure, or to a small piece of HTML.

The first line of each view's module is the question that it answers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .candidates import candidates
from .gain_bias import gain_bias
from .head_map import head_map
from .norm_map import norm_map
from .outcome import outcome
from .over_image import over_image
from .overview import overview
from .picture import Picture
from .position_shift import position_shift
from .position_similarity import position_similarity
from .position_table import position_table
from .position_waves import position_waves
from .stream_length import stream_length
from .vector_change import vector_change
from .wavelengths import wavelengths

__all__ = [
    "VIEWS",
    "Picture",
    "View",
    "candidates",
    "gain_bias",
    "head_map",
    "norm_map",
    "outcome",
    "over_image",
    "overview",
    "position_shift",
    "position_similarity",
    "position_table",
    "position_waves",
    "stream_length",
    "vector_change",
    "wavelengths",
]


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
VIEWS: tuple[View, ...] = tuple(
    _view(draw)
    for draw in (
        overview,
        head_map,
        over_image,
        outcome,
        candidates,
        vector_change,
        position_table,
        position_similarity,
        wavelengths,
        position_waves,
        position_shift,
        norm_map,
        stream_length,
        gain_bias,
    )
)
