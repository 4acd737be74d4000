"""What came of it: sentences before and after, and the probabilities of the held words."""

from __future__ import annotations

from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ..interventions import Intervention
from ..views import outcome
from . import visit
from .edits import answers_itself
from .scene import Scene
from .words import changed_words


def came_of_it(scene: Scene) -> DeltaGenerator:
    """The sentences and the target words' probabilities; gives the place of the free sentence."""
    with st.container(border=True, key="card-outcome"):
        st.html('<h2 class="tv-question">What came of it</h2>')
        follow = st.empty()
        with follow:
            _sentences(scene)
        if scene.changes and answers_itself(scene.changes):
            st.caption(
                "The causal mask is off, so the held pass may look at the very words it is asked "
                "about: these probabilities flatter it. The freely decoded sentence does not."
            )
        after = scene.now if scene.changes else None
        if scene.before.produced is not None:
            picture = outcome(scene.before, after, dark=visit.dark())
            st.html(picture.html)
            st.html(f'<span class="tv-quiet">{escape(picture.caption)}</span>')
    return follow


def follow_up(scene: Scene, follow: DeltaGenerator) -> None:
    """The sentence of the changed model when nobody holds its words, put where it belongs."""
    before = scene.answer.text
    try:
        if scene.question.target:
            before = scene.engine.free(scene.question, Intervention())
        said = scene.engine.free(scene.question, scene.changes)
        after = changed_words(before, said) if said else "<i>nothing: the model ends at once</i>"
    except (ValueError, LookupError) as error:
        after = f"<i>{escape(spoken(error))}</i>"
    with follow:
        _sentences(scene, before, after)


def _sentences(scene: Scene, before: str = "…", after: str = "…") -> None:
    """What is held and what is said, before and after the change; dots while it is being made.

    ``after`` is HTML, its new words marked.
    """
    held, changed = bool(scene.question.target), bool(scene.changes)
    if not held:
        before = scene.answer.text
    lines = [
        ("held", escape(scene.answer.text), held),
        ("now", escape(before), not held and not changed),
        ("before", escape(before), changed),
        ("after", after, changed),
    ]
    spans = "".join(
        f'<span class="tv-quiet">{name}</span><span data-what="{name}">{text}</span>'
        for name, text, shown in lines
        if shown
    )
    st.html(f'<div class="tv-sentence">{spans}</div>')


def spoken(error: BaseException) -> str:
    """What an error says, without the quotation marks that a KeyError adds."""
    return str(error.args[0]) if error.args else type(error).__name__
