"""What came of it: sentences before and after, the held words' probabilities, the candidates."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ..interventions import Intervention, ShufflePositions
from ..views import candidates, outcome
from . import visit
from .edits import answers_itself
from .patience import Stopped, patiently
from .scene import Scene
from .words import changed_words, spoken

ROW = "_row"  # the row that the candidates followed last
NOTHING = "<i>nothing: the model ends at once</i>"
FLATTERED = (
    "The causal mask is off, so the held pass may look at the very words it is asked about: "
    "these probabilities flatter it. The freely decoded sentence does not."
)
RESHUFFLED = (
    "While the model writes freely its sentence grows, and each step shuffles the places of the "
    "words that are there by then; the held pass shuffles all of them once."
)


def came_of_it(scene: Scene) -> Callable[[], None]:
    """The card of sentences and probabilities; what is given back fills in the free sentence."""
    with st.container(border=True, key="card-outcome"):
        st.html('<h2 class="tv-question">What came of it</h2>')
        follow = st.empty()
        with follow:
            _sentences(scene)
        waiting = st.container(key="waiting-free")
        if answers_itself(scene.changes):
            st.caption(FLATTERED)
        if any(isinstance(e, ShufflePositions) and e.stack != "encoder" for e in scene.changes):
            st.caption(RESHUFFLED)
        if scene.before.produced is not None:
            after = scene.now if scene.changes else None
            picture = outcome(scene.before, after, dark=visit.dark())
            st.html(picture.html)
            st.html(f'<span class="tv-quiet">{escape(picture.caption)}</span>')
            _candidates(scene)
    return lambda: _follow_up(scene, follow, waiting)


def _candidates(scene: Scene) -> None:
    """The most probable words at one place of the translation, before and after."""
    state, produced = st.session_state, scene.before.produced
    assert produced is not None
    _follow_row(scene)
    visit.fit("answer", len(produced.ids), "word")
    visit.relabel("answer")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html('<h3 class="tv-question">What else could stand here?</h3>', width="content")
        st.selectbox(
            "instead of",
            range(len(produced.ids)),
            key="answer",
            format_func=produced.labels.__getitem__,
            width=170,
            label_visibility="collapsed",
        )
    after = scene.now if scene.changes else None
    names = scene.engine.pieces(scene.question.model)
    picture = candidates(scene.before, after, state["answer"], names, dark=visit.dark())
    st.html(picture.html)
    st.html(f'<span class="tv-quiet">{escape(picture.caption)}</span>')


def _follow_row(scene: Scene) -> None:
    """A new row of a decoder's map asks about the word that this row produces."""
    state = st.session_state
    row = (scene.place.block, state["token"])
    if row[0] != "encoder" and state.get(ROW, row) != row:
        state["answer"] = row[1]
    state[ROW] = row


def _follow_up(scene: Scene, follow: DeltaGenerator, waiting: DeltaGenerator) -> None:
    """The sentence of the changed model when nobody holds its words, put where it belongs."""
    if not scene.changes and not scene.question.target:
        return
    before, after = scene.answer.text, "…"
    try:
        if scene.question.target:
            before = "…"
            before = freely(scene, Intervention(), waiting)
        if scene.changes:
            said = freely(scene, scene.changes, waiting)
            after = changed_words(before, said) if said else NOTHING
    except Stopped:
        after = "<i>stopped</i>"
    except (ValueError, LookupError) as error:
        after = f"<i>{escape(spoken(error))}</i>"
    with follow:
        _sentences(scene, before, after)


def freely(scene: Scene, changes: Intervention, where: DeltaGenerator) -> str:
    """What the model says under these changes when nobody holds its words."""
    return patiently(
        lambda task: scene.engine.free(scene.question, changes, task),
        key="free-changed" if changes else "free-clean",
        say="Translating freely ...",
        about=(scene.question, changes.to_json()),
        where=where,
    )


def _sentences(scene: Scene, before: str = "…", after: str = "…") -> None:
    """What is held and what is said, before and after the change; dots while it is being made.

    ``after`` is HTML, its new words marked.
    """
    held, changed = bool(scene.question.target), bool(scene.changes)
    if not held:
        before = scene.answer.text
    lines = [
        ("held", escape(scene.answer.text), held),
        ("now", escape(before), not changed),
        ("before", escape(before), changed),
        ("after", after, changed),
    ]
    spans = "".join(
        f'<span class="tv-quiet">{name}</span><span data-what="{name}">{text}</span>'
        for name, text, shown in lines
        if shown
    )
    st.html(f'<div class="tv-sentence">{spans}</div>')
