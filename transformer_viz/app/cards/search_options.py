"""Search settings of the page Play: greedy, sampling, or beam search."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from ...i18n import mark, say
from ..session import query_state, widget_sync
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import DRAWS
from ..session.url_values import BEAMS
from ..ui import layout

WAYS = {"greedy": mark("Greedy"), "sample": mark("Sampling"), "beam": mark("Beam search")}
RUNS = {"now": mark("Changed run"), "before": mark("Clean run")}
SEEDS = 100_000
TOLD = {"greedy": 900, "sample": 860, "beam": 900}  # pixels of the description of each


@dataclass(frozen=True)
class Way:
    """Search settings; parameters of the other methods stay at their defaults."""

    beam: int = 1
    drawing: float | None = None
    seed: int = 0


def choices(scene: Scene) -> Way:
    """Draw the question, the search methods, and the parameters of the chosen one."""
    with layout.row("center", spread=True):
        layout.heading(_question(scene), fit=True)
        with layout.row(fit=True, key="fold-play"):
            st.segmented_control(
                say("search"),
                list(WAYS),
                key="search",
                format_func=lambda way: say(WAYS[way]),
                required=True,
                label_visibility="collapsed",
            )
            if scene.changes:
                _run()
    way = state.search
    with layout.row("center", gap="medium", key="fold-play-choices"):
        if way == "sample":
            _drawing()
        if way == "beam":
            _width()
        st.html(f'<p class="tv-note">{_told(scene, way)}</p>', width=TOLD[way])
    if scene.question.target:
        st.caption(
            say("A target was typed: the other pages hold it. Here the model writes by itself.")
        )
    return chosen_way()


def chosen_way() -> Way:
    """Return the search settings of this session."""
    if state.search == "sample":
        return Way(drawing=float(state.drawing), seed=int(state.seed or 0))
    return Way(beam=int(state.beam)) if state.search == "beam" else Way()


def clean(scene: Scene) -> bool:
    """Return True if the clean run is played, although there may be edits."""
    return not scene.changes or state.compare == "before"


def _question(scene: Scene) -> str:
    if scene.kind.continues:
        return say("How does the model go on with the text?")
    return say("How does the model write its translation?")


def _told(scene: Scene, way: str) -> str:
    """Return the description of a search method."""
    if way == "greedy":
        return say(
            "Greedy: at each step the model writes the most probable token and never looks back."
        )
    if way == "beam":
        return say(
            "Beam search: at each step the best texts so far are kept. At the end the best score "
            "wins: the log-probability divided by a length norm."
        )
    return say(
        "Sampling: each token is drawn by chance. The output temperature divides the scores of the "
        "vocabulary behind the last layer: low is careful, high is wild. It is not the attention "
        "temperature of Explore, which works inside the heads."
    )


def _drawing() -> None:
    """Draw the output temperature, and the button for another sample."""
    st.slider(
        say("output temperature"),
        min_value=float(DRAWS[0]),
        max_value=float(DRAWS[1]),
        key="drawing",
        step=0.1,
        format="%.1f",
        width=220,
    )
    st.button(say("draw again"), key="redraw", on_click=_redraw)


def _redraw() -> None:
    state.seed = (int(state.seed or 0) + 1) % SEEDS


def _width() -> None:
    """Draw the beam size; the frame has another widget for the same number."""
    widget_sync.show({"wide": state.beam})
    st.selectbox(
        say("texts kept at each step"),
        list(BEAMS),
        key="wide",
        format_func=_kept,
        on_change=_widen,
        label_visibility="collapsed",
        width=170,
    )


def _kept(count: int) -> str:
    return say("keep 1 text") if count == 1 else say("keep {count} texts", count=count)


def _widen() -> None:
    if st.session_state["wide"] in BEAMS and st.session_state["wide"] != state.beam:
        state.beam, private.widened = st.session_state["wide"], True
        query_state.mark_query_changed()


def redraw_widened() -> None:
    """Rerun the app after the beam size was changed here, since another widget shows it too."""
    if private.widened:
        del private.widened
        st.rerun(scope="app")


def _run() -> None:
    """Draw the choice of the played run: the changed one, or the clean one."""
    before = state.compare == "before"
    widget_sync.show({"run": "before" if before else "now"})
    st.segmented_control(
        say("run"),
        list(RUNS),
        key="run",
        format_func=lambda run: say(RUNS[run]),
        required=True,
        on_change=lambda: widget_sync.moved("run", _choose_run),
        label_visibility="collapsed",
    )


def _choose_run() -> None:
    if st.session_state["run"] in RUNS:
        state.compare = st.session_state["run"]
