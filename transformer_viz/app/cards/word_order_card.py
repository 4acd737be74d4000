"""Test for a bag of words: the same words in another order, and the model's output."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...core.interventions import BlockEdges, BlockKeys, Intervention, ShufflePositions
from ...i18n import mark, say
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import spoken
from .written import freely

QUESTION = mark("Does the order of the words matter?")
LINES = {
    "words": mark("the same words"),
    "trained": mark("as trained"),
    "changed": mark("changed"),
}
BY_NUMBER = (BlockKeys, BlockEdges, ShufflePositions)
NUMBERED = mark(
    "Hidden words, cut links and shuffles go by the number of a word, and in the other order that "
    "is another word: take them away to compare the two orders."
)


def order_card(scene: Scene) -> Callable[[], None]:
    """Draw the sentence in another order; return a function that runs and compares both orders."""
    with st.container(border=True, key="card-order"):
        with layout.row("center", spread=True):
            layout.heading(say(QUESTION), fit=True)
            st.button(say("another order"), key="reorder", on_click=_another)
        place = st.empty()
        with place:
            _lines([("words", "…")])
        waiting = st.container(key="waiting-order")
    return lambda: _compare(scene, place, waiting)


def _another() -> None:
    state.order += 1


def _compare(scene: Scene, place: DeltaGenerator, waiting: DeltaGenerator) -> None:
    """Run both orders through the clean and the changed model, and show the conclusion."""
    try:
        lines, verdict = _answers(scene, waiting)
    except Stopped:
        lines, verdict = [], say("Stopped.")
    except (ValueError, LookupError) as error:
        lines, verdict = [], spoken(error)
    with place.container():
        _lines(lines)
        st.html(f'<p class="tv-say" data-what="verdict">{escape(verdict)}</p>')


def _answers(scene: Scene, waiting: DeltaGenerator) -> tuple[list[tuple[str, str]], str]:
    ids = scene.engine.reordered(scene.question, state.order)
    if ids == scene.answer.trace.source.ids:
        return [], say("This sentence has no other order.")
    numbered = any(isinstance(edit, BY_NUMBER) for edit in scene.changes)
    mixed = scene.engine.text_of(scene.question.model, ids)
    lines = [("words", mixed)]
    same = False
    runs = {"trained": Intervention()} | ({"changed": scene.changes} if scene.changes else {})
    for name, changes in runs.items():
        told = _free_ids(scene, ids, changes, waiting)
        straight = freely(scene, changes, waiting)
        same = told == straight
        lines.append((name, told))
    continues = scene.kind.continues
    return lines, say(NUMBERED) if numbered else verdict(bool(scene.changes), same, continues)


def verdict(changed: bool, same: bool, continues: bool = False) -> str:
    """Return the conclusion for a model that translates or ``continues``."""
    if changed and same and continues:
        return say(
            "The changed model goes on from this order and the other alike: to it they are the "
            "same bag of words."
        )
    if changed and same:
        return say(
            "The changed model translates this order and the other alike: to it they are the "
            "same bag of words."
        )
    if changed:
        return say("The changed model still tells the two orders apart.")
    if same and continues:
        return say("The model goes on from this order and the other alike.")
    if same:
        return say("The model translates this order and the other alike.")
    return say("The model tells the two orders apart. Drop the positions above, and look again.")


def _free_ids(
    scene: Scene, ids: tuple[int, ...], changes: Intervention, where: DeltaGenerator
) -> str:
    return run_with_progress(
        lambda task: scene.engine.free_ids(scene.question, ids, changes, task),
        key="order-changed" if changes else "order-clean",
        label=say("Running the other order ..."),
        about=(scene.question, ids, changes.to_json()),
        where=where,
    )


def _lines(lines: list[tuple[str, str]]) -> None:
    spans = "".join(
        f'<span class="tv-quiet">{escape(say(LINES[name]))}</span>'
        f'<span data-what="order-{name}">{escape(text)}</span>'
        for name, text in lines
    )
    st.html(f'<div class="tv-sentence tv-wide">{spans}</div>')
