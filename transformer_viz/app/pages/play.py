"""Page Play: the search for the output, token by token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from ...components.play import PlayLook, play_data
from ...core.interventions import Intervention
from ...core.numerics import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from ...core.search_tree import Search
from ...i18n import mark, say
from ..cards import search_options
from ..cards.dock import dock
from ..cards.search_options import Way
from ..engine.engine import Engine
from ..engine.search_jobs import searched
from ..page_template import show
from ..session import notices, widget_sync
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..session.url_values import quoted, shortened
from ..ui import components, layout
from ..ui.progress import run_with_progress
from ..ui.text_format import ending, escape_markdown

QUESTION = mark("How does the model write?")
NAMED = mark("{name} names a class and writes no words, so there is nothing to play.")
#: Messages for models that generate no text, by output kind and task.
JUDGED = {
    "classes": {
        SINGLE_LABEL: NAMED,
        MULTI_LABEL: mark(
            "{name} names labels, none, one or several, and writes no words, so there is nothing "
            "to play."
        ),
        REGRESSION: mark("{name} gives a score and writes no words, so there is nothing to play."),
    },
    "tags": {
        SINGLE_LABEL: mark(
            "{name} names a class for each token and writes no words, so there is nothing to play."
        ),
        REGRESSION: mark(
            "{name} gives a score for each token and writes no words, so there is nothing to play."
        ),
    },
}


def draw(engine: Engine) -> None:
    """Draw the page Play."""
    show(engine, _body)


def _body(scene: Scene) -> None:
    if not scene.kind.writes:
        layout.heading(say(QUESTION))
        st.info(escape_markdown(_silent(scene)))
        return
    search_options.redraw_widened()
    way = search_options.choices(scene)
    waiting = st.container(key="waiting-play")
    changes = Intervention() if search_options.clean(scene) else scene.changes
    search = _search(scene, way, changes, waiting)
    chosen = _clamp_played(scene, way, changes, search)
    before = None
    if changes:
        clean = _search(scene, way, Intervention(), waiting)
        before = clean.texts[0]
    _picture(scene, search, chosen, before, f"{way}{changes.to_json()}")
    dock(scene, live=False, comparing=False)


def _silent(scene: Scene) -> str:
    """Return the reason why the model has no search to play."""
    name = scene.engine.shelf[scene.question.model].called
    judged = JUDGED.get(scene.kind.gives, {}) if scene.kind.takes != "audio" else {}
    if judged:
        why = say(judged.get(scene.kind.task, judged[SINGLE_LABEL]), name=name)
    elif scene.kind.gives == "spans":
        why = say(
            "{name} marks an answer in its text and writes no words, so there is nothing to play.",
            name=name,
        )
    elif scene.kind.gives == "vectors":
        why = say("{name} gives vectors and no words, so there is nothing to play.", name=name)
    elif scene.kind.takes == "audio":
        why = say(
            "{name} hears a whole sound at once and names a letter for each frame, so there is "
            "nothing to play.",
            name=name,
        )
    else:
        why = say(
            "{name} reads a whole sentence at once and writes nothing by itself, so there is "
            "nothing to play.",
            name=name,
        )
    return f"{why} {say('Choose a translation model, or one that goes on with a text.')}"


def _search(scene: Scene, way: Way, changes: Intervention, waiting: object) -> Search:
    """Return the cached search."""
    question = scene.question
    asked = replace(question, target="", beam=way.beam)
    words = (asked, way.beam, way.drawing, way.seed, changes.to_json())
    found: Search = run_with_progress(
        lambda task: scene.engine.ask(question.model, searched, *words, task=task, stepped=True),
        key="play-changed" if changes else "play",
        label=say("Writing, and noting every step ..."),
        about=(question.model, words),
        where=waiting,  # type: ignore[arg-type]
    )
    return found


# ---- shown step and text -----------------------------------------------------------------------


def _clamp_played(scene: Scene, way: Way, changes: Intervention, search: Search) -> int | None:
    """Return the chosen text with step and text clamped to this search; None means the best text.

    A new question starts at step 0. A new search for the same question keeps the step.
    """
    question = scene.question
    now = (question.model, question.text, question.picture, question.file), (way, changes.to_json())
    was = private.played or now
    private.played = now
    if was[0] != now[0]:
        state.played = 0
    if was != now:
        state.branch = ""
    chosen = _named(search, state.branch)
    if state.branch and chosen is None:
        notices.about_link(
            say(
                "In the link, branch is {branch}, which this search did not weigh; its best text "
                "is shown.",
                branch=quoted(state.branch),
            )
        )
        state.branch = ""
    last = int(search.steps[search.best[0] if chosen is None else chosen])
    if state.played > last:
        notices.about_link(
            say(
                "In the link, played is {step}; this text has the steps 0 to {last}.",
                step=state.played,
                last=last,
            )
        )
        state.played = last
    return chosen


def _named(search: Search, branch: str) -> int | None:
    """Return the candidate that a link names by its step and index there, or None."""
    step, _, place = branch.partition(".")
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in (step, place)):
        return None
    return search.named(int(step), int(place))


# ---- the picture --------------------------------------------------------------------------------


def _picture(
    scene: Scene, search: Search, chosen: int | None, before: str | None, about: str
) -> None:
    place = scene.place
    if not search.rows:
        st.info(say("No attention was found in this model while it wrote, so nothing is drawn."))
        return
    layer = min(place.layer, len(search.rows) - 1)
    run = scene.before if search_options.clean(scene) else scene.now  # an edit may add padding
    look = PlayLook(
        layer=layer,
        head=min(place.head, search.rows[layer].shape[1] - 1),
        pooled=state.pooled,
        played=state.played,
        chosen=chosen,
        ramp=scene.look.ramp,
        seq=scene.look.seq,
    )
    data = play_data(
        search,
        scene.engine.pieces(scene.question.model),
        run.source.labels,
        look,
        about=f"{scene.question.model} {scene.question.text} {about}",
        start=ending(scene.question.text) if scene.kind.continues else "",
        before=before,
    )
    components.play(data, key="play", moved=_moved, looked=_looked)
    st.caption(
        say(
            "Attention weights say where a head looked. They do not say why the model wrote a word."
        )
    )


def _moved(said: object) -> None:
    """Store the step and the text at which the slider rests."""
    match said:
        case {"played": int(played), "branch": str(branch)} if 0 <= played < 100_000:
            st.session_state.update(played=played, branch=shortened(branch))


def _looked(said: object) -> None:
    """Store the layer and head of the shown row; other pages open this head too."""
    if not isinstance(said, Mapping):
        return
    match said:
        case {"layer": int(layer), "head": int(head), "pooled": bool(pooled)}:
            if 0 <= layer < 1000 and 0 <= head < 1000:
                state.pooled = pooled
                widget_sync.choose(layer=layer, head=head)
