"""Explore: which words does each head look at, and what becomes of it when it is changed?"""

from __future__ import annotations

from collections.abc import Callable

from . import chips, head
from .change import controls
from .engine import Engine
from .page import show
from .pictures import pictures
from .result import came_of_it
from .scene import Scene

QUESTION = "Which words does each head look at?"


def draw(engine: Engine) -> None:
    """The page Explore."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None]:
    found = head.cells_of(scene)
    head.settle_row(found)
    chips.settle_picked(found)
    chips.sentences(scene, chips.of_map(scene, found), head.CHART, chips.keep)
    pictures(scene, found, QUESTION)
    controls(scene)
    return came_of_it(scene)
