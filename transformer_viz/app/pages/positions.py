"""Page Positions: positional information of the model, and edits of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st

from ... import views
from ...core.editing.edit_controls import REACHES
from ...core.sites import called
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import mark, say
from ...metrics.positions.positions import pair_count, position_array
from ..cards import head_card, token_chips
from ..cards.dock import dock
from ..cards.outcome_card import came_of_it
from ..cards.overview import pictures, sentence
from ..cards.plotly_chart import chart, clicked
from ..cards.word_order_card import order_card
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..page_template import show
from ..session import changes, notices, position_edits, visit, widget_sync
from ..session.position_edits import stack_of
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout

KNOWS = {
    "word": mark("How does the model know where each word stands?"),
    "patch": mark("How does the model know where each patch stands?"),
    "vector": mark("How does the model know where each vector stands?"),
}
ADDED = {
    "word": mark("What is added to each word?"),
    "patch": mark("What is added to each patch?"),
    "vector": mark("What is added to each vector?"),
}
SCALES = (0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0)


def draw(engine: Engine) -> None:
    """Draw the page Positions."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None]:
    stack = state.stack
    tokens = scene.now.words_of(stack)
    notices.clamp_index("place", len(tokens), mark("position"))
    notices.rewrite_widget("place")
    rows = token_chips.rows_for_stack(scene, stack, state.place, "row")
    sides = token_chips.sides_of(scene, stack, "row")
    written = token_chips.sentences(
        scene, rows, lambda chip: widget_sync.choose(place=chip.token), "position-table", sides
    )
    _choices(scene)
    name = name_of(scene.before, stack)
    if name is None and scene.kind.takes == "audio":
        st.info(
            say(
                "No table is added in the {stack} of this model, nothing is rotated, no score gets "
                "a bias. Its frames are made by convolutions, and these tell where each stands.",
                stack=called(stack),
            )
        )
    elif name is None:
        st.info(
            say(
                "Nothing was found that tells the {stack} of this model where its words stand: no "
                "table is added, nothing is rotated, no score gets a bias. Its order, if it knows "
                "any, comes from the causal mask.",
                stack=called(stack),
            )
        )
    else:
        notices.clamp_index("shift", len(tokens), mark("shift"))
        notices.clamp_index("pair", max(1, pair_count(scene.now, name)), mark("pair of dimensions"))
        _pictures(scene, name)
        _along(scene, name, tokens)
    _switches(scene)
    scene, found = head_card.clamp_selection(scene)
    pictures(scene, say("What do the heads do with it?"), lambda: head_card.opened(scene, found))
    came_of_it(scene)
    bag = order_card(scene) if scene.kind.writes and scene.kind.takes == "text" else None
    follow = written_freely(scene, written, dock(scene))

    def later() -> None:
        for work in (follow, bag):
            if work is not None:
                work()

    return later


def name_of(trace: Trace, stack: str) -> str | None:
    """Return the trace's name for a stack's positions (table, angles, or score bias), or None."""
    return next((name for name in trace.positions if stack_of(name) == stack), None)


def _choices(scene: Scene) -> None:
    with layout.row("center", spread=True):
        question = say(KNOWS[scene.kind.thing])
        layout.heading(question, fit=True)
        sentence(scene)


def _pictures(scene: Scene, name: str) -> None:
    """Draw the table, its wavelengths, and the similarity of positions."""
    dark = visit.dark()
    now, before = scene.shown
    with st.container(key="pictures-table"):
        left, middle, right = st.columns(3)
        with left.container(border=True, height="stretch", key="card-table"):
            chart(
                "position-table",
                say(ADDED[scene.kind.thing]),
                lambda: views.position_table(
                    now,
                    name,
                    before=before,
                    most=None if before else _most(scene, name),
                    token=state.place,
                    pair=state.pair,
                    head=state.head,
                    dark=dark,
                ),
                lambda: _pick("position-table", "place", "pair"),
            )
        with middle.container(border=True, height="stretch", key="card-wavelengths"):
            chart(
                "wavelengths",
                say("How long is the wave of each pair of dimensions?"),
                lambda: views.wavelengths(now, name, pair=state.pair, dark=dark),
                lambda: _pick("wavelengths", "pair"),
            )
        with right.container(border=True, height="stretch", key="card-similarity"):
            chart(
                "position-similarity",
                say("Which places look alike?"),
                lambda: views.position_similarity(now, name, token=state.place, dark=dark),
                lambda: _pick("position-similarity", "place"),
            )


def _most(scene: Scene, name: str) -> float | None:
    """Return the largest number in the tables of both runs, for a common colour scale."""
    if not name.startswith("table."):  # cosines need no common scale, and a bias has its own
        return None
    runs = (scene.before, scene.now)
    return max(float(np.abs(position_array(run, name)).max(initial=0)) for run in runs)


def _pick(key: str, *names: str) -> None:
    """Store the values of a clicked point."""
    for name, value in zip(names, clicked(key), strict=False):
        st.session_state[name] = value


def _along(scene: Scene, name: str, tokens: Tokens) -> None:
    """Draw the chosen pair along the sentence, and the rotation that shifts by k tokens."""
    dark = visit.dark()
    now, _ = scene.shown
    with st.container(key="pictures-waves"):
        left, right = st.columns(2)
        with left.container(border=True, height="stretch", key="card-waves"):
            chart(
                "position-waves",
                scene.kind.asked(mark("What do the chosen two dimensions do along the sentence?")),
                lambda: views.position_waves(now, name, state.pair, dark=dark),
                lambda: _pick("position-waves", "place"),
            )
            st.number_input(
                say("pair of dimensions"),
                key="pair",
                min_value=0,
                max_value=max(1, pair_count(now, name)) - 1,
                width=layout.POSITION_WIDTH,
            )
        with right.container(border=True, height="stretch", key="card-shift"):
            chart(
                "position-shift",
                scene.kind.asked(mark("Is k words further always the same turn?")),
                lambda: views.position_shift(now, name, state.shift, state.place, dark=dark),
                lambda: _pick("position-shift", "pair"),
            )
            with layout.row():
                _place(tokens)
                _steps(tokens)


def _place(tokens: Tokens) -> None:
    st.selectbox(
        say("position"),
        range(len(tokens)),
        key="place",
        format_func=lambda place: f"{place} {tokens.labels[place]}",
        width=layout.POSITION_WIDTH,
    )


def _steps(tokens: Tokens) -> None:
    if len(tokens) > 1:
        st.slider(
            say("k: how many words further"),
            min_value=0,
            max_value=len(tokens) - 1,
            key="shift",
            width=layout.SLIDER_WIDTH,
        )


def _switches(scene: Scene) -> None:
    """Draw the controls that scale, drop or shuffle the positions."""
    _show(scene)
    with st.container(border=True, key="card-switches"):
        with layout.row("center", fit=True):
            two = len(scene.kind.stacks) > 1
            of = layout.quiet_span(say("the positions of"))
            heading = f"{say('Change it')} {of}" if two else say("Change the positions")
            layout.heading(heading, fit=True)
            if two:
                st.segmented_control(
                    say("the positions of"),
                    list(REACHES),
                    key="reach",
                    format_func=lambda reach: say(REACHES[reach]),
                    required=True,
                    label_visibility="collapsed",
                )
        with layout.row("bottom", gap="medium"):
            _controls()
        if state.reach == "both" and position_edits.differ(scene.changes):
            st.caption(
                say(
                    "The two sentences are changed differently: the switches show the source. "
                    "Moving one makes both alike."
                )
            )


def _controls() -> None:
    st.select_slider(
        say("scale"),
        sorted({*SCALES, st.session_state["position_scale"]}),
        key="position_scale",
        format_func=lambda value: say("0 (dropped)") if value == 0 else f"{value:g}",
        on_change=_moved,
        args=("position_scale",),
        width=300,
        help=say(
            "What the positions are multiplied by before they are added; 0 leaves none of them."
        ),
    )
    st.toggle(
        say("drop"),
        key="position_drop",
        on_change=_moved,
        args=("position_drop",),
        help=say("The same as scale 0."),
    )
    st.toggle(
        say("shuffle"),
        key="position_shuffle",
        on_change=_moved,
        args=("position_shuffle",),
        help=say("Every word gets the place of another one; start and end marks keep theirs."),
    )
    st.button(
        say("another shuffle"),
        key="reshuffle",
        on_click=_reshuffled,
        disabled=not st.session_state["position_shuffle"],
    )


def _show(scene: Scene) -> None:
    """Update the controls to the current edits."""
    reach = state.reach
    scale = position_edits.scale(scene.changes, reach)
    widget_sync.show(
        {
            "position_scale": scale,
            "position_drop": scale == 0,
            "position_shuffle": position_edits.shuffled(scene.changes, reach) is not None,
        }
    )


def _moved(name: str) -> None:
    widget_sync.moved(name, lambda: _write(name))


def _write(name: str) -> None:
    """Apply the value of a control to the edits."""
    now = changes.intervention()
    value, reach = st.session_state[name], state.reach
    if name == "position_scale":
        now = position_edits.set_scale(now, reach, value)
    elif name == "position_drop":
        now = position_edits.set_scale(now, reach, 0.0 if value else 1.0)
    else:
        now = position_edits.set_shuffled(now, reach, 0 if value else None)
    changes.change(now)


def _reshuffled() -> None:
    reach, now = state.reach, changes.intervention()
    seed = position_edits.shuffled(now, reach) or 0
    changes.change(position_edits.set_shuffled(now, reach, seed + 1))
