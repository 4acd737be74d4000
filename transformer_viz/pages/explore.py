"""Explore: which words does each head look at, and what becomes of it when it is changed?"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from ..views.cells import Cells
from . import chips, head
from .change import controls
from .engine import Engine
from .page import show
from .pictures import pictures
from .result import came_of_it
from .scene import Scene
from .words import plain

QUESTION = "Which words does each head look at?"


def draw(engine: Engine) -> None:
    """The page Explore."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None]:
    found = head.cells_of(scene)
    head.settle_row(found)
    chips.settle_picked(found)
    _words(scene, found)
    pictures(scene, found, QUESTION)
    controls(scene)
    return came_of_it(scene)


def _words(scene: Scene, found: Cells) -> None:
    """The translation to read, and both sentences as chips."""
    st.html(f'<p class="tv-lead" data-what="translation">{escape(scene.answer.text)}</p>')
    chips.sentences(scene, found)
    lost = scene.engine.lost(scene.question)
    if lost:
        seen = plain(", ".join(lost))
        st.info(f"The model's vocabulary cannot see {seen}: it reads the rest.")
