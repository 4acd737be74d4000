"""Result card: the model's output before and after, and the target tokens' probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from ...core.editing.edit_controls import answers_itself
from ...core.interventions import ShufflePositions
from ...i18n import mark, say
from ..render import outcome_html, payloads
from ..session import notices, selection, view_options
from ..session.scene import Scene
from ..ui import components, layout

CLICK = mark("Click a word above to hide it from the model; its guesses then stand here.")
READ = mark("The model was shown this word, so it need not guess: hide it with a click above.")
FLATTERED = mark(
    "The causal mask is off, so the held pass may look at the very words it is asked about: "
    "these probabilities flatter it. The freely decoded sentence does not."
)
RESHUFFLED = mark(
    "While the model writes freely its sentence grows, and each step shuffles the places of the "
    "words that are there by then; the held pass shuffles all of them once."
)


def came_of_it(scene: Scene) -> None:
    """Draw the card of the model's probabilities for the target tokens."""
    with st.container(border=True, key="card-outcome"):
        layout.heading(say("What came of it"))
        if scene.kind.writes:
            _cautions(scene)
        _probabilities(scene)


def _cautions(scene: Scene) -> None:
    """Show warnings about differences between teacher forcing and free decoding."""
    if answers_itself(scene.changes):
        st.caption(say(FLATTERED))
    if any(isinstance(e, ShufflePositions) and e.stack != "encoder" for e in scene.changes):
        st.caption(say(RESHUFFLED))


def _probabilities(scene: Scene) -> None:
    """Show the results of the runs, and the alternatives at one position."""
    masks = scene.kind.mask_id is not None and outcome_html.asks(scene)
    if masks:
        st.caption(say(CLICK))
    components.panel(payloads.outcome(scene), key="outcome", picked=selection.follow_bar)
    if not outcome_html.asks(scene):
        return
    _choose_place(outcome_html.places(scene))
    scene = replace(scene, look=view_options.look())
    components.panel(payloads.guesses(scene), key="guesses")
    if masks:
        st.caption(say(READ))


def _choose_place(labels: Sequence[str]) -> None:
    """Draw the list of output positions beside the question."""
    notices.clamp_index("answer", len(labels), mark("word"))
    notices.rewrite_widget("answer")
    with layout.row("center"):
        question = say("What else could stand here?")
        layout.heading(question, 3, fit=True)
        st.selectbox(
            say("instead of"),
            range(len(labels)),
            key="answer",
            format_func=labels.__getitem__,
            width=layout.TOKEN_WIDTH,
            label_visibility="collapsed",
        )
