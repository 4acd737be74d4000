"""Explore: which words does each head look at, and what becomes of it when it is changed?"""

from __future__ import annotations

from collections.abc import Callable

from ..languages import mark, say
from . import chips, choice, head
from .change import controls
from .engine import Engine
from .page import show
from .patches import patches
from .pictures import pictures
from .result import came_of_it
from .scene import Scene

QUESTION = mark("Which words does each head look at?")
QUESTIONS = {
    "image": mark("Which parts of the picture does each head look at?"),
    "vectors": mark("Which vectors does each head look at?"),
}


def draw(engine: Engine) -> None:
    """The page Explore."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    scene, found = head.settled(scene)
    scene = choice.follow_row(scene)
    source = scene.before.source
    chosen = chips.keep if scene.kind.mask_id is None else chips.hide(source)
    chips.sentences(scene, chips.of_map(scene, found), chosen)
    pictures(scene, found, say(QUESTIONS.get(scene.kind.takes, QUESTION)))
    if scene.kind.takes == "image":
        patches(scene)
    controls(scene)
    return came_of_it(scene)
