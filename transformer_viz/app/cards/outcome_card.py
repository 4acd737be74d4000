"""What came of it: what the model writes before and after, and the held words' probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...core.interventions import Intervention, ShufflePositions
from ...i18n import mark, say
from ..render import outcome_html, payloads
from ..session import notices, selection, view_options
from ..session.edit_controls import answers_itself
from ..session.scene import Scene
from ..ui import components, layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import changed_words, ending, spoken

NOTHING = mark("nothing: the model ends at once")
RUNS = {
    "held": mark("held"),
    "now": mark("now"),
    "before": mark("before"),
    "after": mark("after"),
}
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


def came_of_it(scene: Scene) -> Callable[[], None] | None:
    """The card of what the model says; what is given back fills in what it writes freely."""
    with st.container(border=True, key="card-outcome"):
        layout.heading(say("What came of it"))
        if not scene.kind.writes:
            _probabilities(scene)
            return None
        follow = st.empty()
        with follow:
            _sentences(scene)
        waiting = st.container(key="waiting-free")
        _cautions(scene)
        _probabilities(scene)
    return lambda: _follow_up(scene, follow, waiting)


def _cautions(scene: Scene) -> None:
    """What makes the held pass and the free one hard to compare."""
    if answers_itself(scene.changes):
        st.caption(say(FLATTERED))
    if any(isinstance(e, ShufflePositions) and e.stack != "encoder" for e in scene.changes):
        st.caption(say(RESHUFFLED))


def _probabilities(scene: Scene) -> None:
    """What the runs say, and what else could stand at one place."""
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
    """Which place is asked about, in a box beside the question."""
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


def _follow_up(scene: Scene, follow: DeltaGenerator, waiting: DeltaGenerator) -> None:
    """The sentence of the changed model when nobody holds its words, put where it belongs."""
    continues = scene.kind.continues
    if not (scene.changes or scene.question.target or continues):
        return
    before, after = scene.answer.text, "…"
    try:
        if scene.question.target or continues:
            before = "…"
            before = freely(scene, Intervention(), waiting)
        if scene.changes:
            said = freely(scene, scene.changes, waiting)
            gap = " " if continues and said != said.lstrip() else ""
            after = gap + changed_words(before, said) if said else _nothing()
    except Stopped:
        before, after = _instead(before, say("stopped"))
    except (ValueError, LookupError) as error:
        before, after = _instead(before, spoken(error))
    with follow:
        _sentences(scene, before, after)


def _nothing() -> str:
    return f" <i>{say(NOTHING)}</i>"


def _instead(before: str, words: str) -> tuple[str, str]:
    """What is shown where a sentence was to come: of both, if not even the first one came."""
    return words if before == "…" else before, f"<i>{escape(words)}</i>"


def freely(scene: Scene, changes: Intervention, where: DeltaGenerator) -> str:
    """What the model says under these changes when nobody holds its words."""
    return run_with_progress(
        lambda task: scene.engine.free(scene.question, changes, task),
        key="free-changed" if changes else "free-clean",
        label=say("Going on with the text ...")
        if scene.kind.continues
        else say("Writing freely ...")
        if scene.kind.takes == "audio"
        else say("Translating freely ..."),
        about=(scene.question, changes.to_json()),
        where=where,
    )


def _sentences(scene: Scene, before: str = "…", after: str = "…") -> None:
    """What is held and what is said, before and after the change; dots while it is being made.

    ``after`` is HTML, its new words marked.
    """
    held, changed = bool(scene.question.target), bool(scene.changes)
    if not (held or scene.kind.continues):
        before = scene.answer.text
    said = escape(before) or _nothing()
    lines = [
        ("held", escape(scene.answer.text), held),
        ("now", said, not changed),
        ("before", said, changed),
        ("after", after, changed),
    ]
    start = f'<span class="tv-start">{escape(ending(scene.question.text))}</span>'
    start = start if scene.kind.continues else ""
    spans = "".join(
        f'<span class="tv-quiet">{say(RUNS[name])}</span>'
        f'<span>{start}<span data-what="{name}">{text}</span>'
        "</span>"
        for name, text, shown in lines
        if shown
    )
    st.html(f'<div class="tv-sentence">{spans}</div>')
