"""What came of it where no words are written: fillings of masks, classes, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from ..views import candidates, outcome, vector_change
from ..views.picture import Picture
from . import visit
from .scene import Scene

MASKS = 4  # masks whose candidates are shown at once
CLASSES = 10  # classes that are shown at once
CLICK = "Click a word above to hide it from the model; its guesses then stand here."
READ = "The model was shown this word, so it need not guess: hide it with a click above."


def came_out(scene: Scene) -> None:
    """The part of the card that belongs to a kind of model which writes no words."""
    if scene.kind.gives == "classes":
        _classes(scene)
    elif scene.kind.gives == "vectors" or scene.before.logits is None:
        _vectors(scene)
    elif scene.question.masked:
        _masks(scene)
    else:
        _places(scene)


def class_names(scene: Scene) -> Sequence[str]:
    """What the classes are called; a number where nobody said."""
    logits = scene.before.logits
    count = 0 if logits is None else len(logits)
    labels = scene.kind.labels
    return tuple(labels[n] if n < len(labels) else f"class {n}" for n in range(count))


def candidates_at(scene: Scene, row: int, names: Sequence[str], count: int = 5) -> None:
    """The most probable words or classes at one place, before and after."""
    after = scene.now if scene.changes else None
    drawn(candidates(scene.before, after, row, names, count=count, dark=visit.dark()))


def drawn(picture: Picture) -> None:
    """A picture of HTML, and what a reader must know of it."""
    st.html(picture.html)
    st.html(f'<span class="tv-quiet">{escape(picture.caption)}</span>')


def choose_place(labels: Sequence[str], question: str) -> int:
    """A question, and the place that it is about, chosen in a box beside it."""
    visit.fit("answer", len(labels), "word")
    visit.relabel("answer")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(f'<h3 class="tv-question">{question}</h3>', width="content")
        st.selectbox(
            "instead of",
            range(len(labels)),
            key="answer",
            format_func=labels.__getitem__,
            width=170,
            label_visibility="collapsed",
        )
    return int(st.session_state["answer"])


def _masks(scene: Scene) -> None:
    """What could stand behind the masks, and how probable the words are that do."""
    after = scene.now if scene.changes else None
    masked = scene.question.masked
    produced = scene.before.produced
    assert produced is not None
    drawn(outcome(scene.before, after, rows=masked, dark=visit.dark()))
    names = scene.engine.pieces(scene.question.model)
    for place in masked[:MASKS]:
        word = escape(produced.labels[place])
        st.html(f'<h3 class="tv-question">What could stand where “{word}” is hidden?</h3>')
        candidates_at(scene, place, names)
    if len(masked) > MASKS:
        st.caption(f"The other {len(masked) - MASKS} masks have no list of their own.")


def _places(scene: Scene) -> None:
    """What the model says at a place that it can see."""
    if scene.kind.mask_id is not None:
        st.caption(CLICK)
    place = choose_place(scene.before.source.labels, "What else could stand here?")
    candidates_at(scene, place, scene.engine.pieces(scene.question.model))
    if scene.kind.mask_id is not None:
        st.caption(READ)


def _classes(scene: Scene) -> None:
    names = class_names(scene)
    candidates_at(scene, 0, names, len(names) if len(names) <= CLASSES else 5)


def _vectors(scene: Scene) -> None:
    """How far the vectors that leave the model have moved."""
    after = scene.now if scene.changes else None
    stack = scene.kind.stacks[-1]
    drawn(vector_change(scene.before, after, stack, dark=visit.dark()))
