"""Change it: the controls of one place, what they apply to, and the way back."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ..interventions import Intervention
from ..records import Tokens, Trace
from . import edits, moves, visit
from .bar import at, chips, ways_back
from .edits import HALF, HEAD_STATES, SCOPES, Place
from .kinds import Kind
from .scene import Scene

#: Temperatures from hard (0) to 5, evenly spaced in their logarithm, with 1 in the middle.
TEMPERATURES = (
    *(0.0, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    1.0,
    *(1.1, 1.25, 1.4, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
)
OFF = "off"
CROSSED = (
    "Cross-attention has no causal mask: it reads the other sentence. Choose Encoder or Decoder, "
    "or apply to everything."
)
MOST_PADDING = 20  # tokens; more would say nothing new
WINDOWS: tuple[int | str, ...] = (*range(11), 12, 16, 24, 32, OFF)


def controls(scene: Scene) -> None:
    """The card: what a change applies to, the controls, and what is changed already."""
    place = scene.place
    keys = keys_of(scene.now, place.block)
    _show(place, scene.changes)
    with st.container(border=True, key="card-change"):
        with st.container(
            horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
        ):
            with st.container(horizontal=True, vertical_alignment="center", width="content"):
                st.html(
                    '<h2 class="tv-question">Change it '
                    '<span class="tv-quiet">applies to</span></h2>',
                    width="content",
                )
                st.segmented_control(
                    "applies to",
                    list(SCOPES),
                    key="scope",
                    format_func=SCOPES.__getitem__,
                    required=True,
                    label_visibility="collapsed",
                )
            with st.container(horizontal=True, width="content"):
                ways_back(disabled=not scene.changes)
        chips(scene)
        with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
            _temperature()
            _causal(scene)
            _window()
            _head_state()
        with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
            _hide(keys, scene.kind)
            _edge(keys)
            if scene.kind.padded:
                _padding()


def keys_of(trace: Trace, block: str) -> Tokens:
    """The tokens that a map's columns stand for."""
    return trace.tokens("target" if block == "decoder" else "source")


def _show(place: Place, changes: Intervention) -> None:
    """Let every control show the edit of the selected head."""
    state, factor = edits.head_state(changes, place)
    count, masked = edits.padding(changes)
    radius = edits.window(changes, place)
    wanted = {
        "temperature": edits.temperature(changes, place),
        "causal": "on" if edits.causal(changes, place) and not _no_causal(place) else OFF,
        "window": OFF if radius is None else radius,
        "hide": list(edits.hidden(changes, place)),
        "edge": list(edits.cut(changes, place, st.session_state["token"])),
        "head_state": state,
        "factor": factor if state == "scale" else HALF,
        "pad": count,
        "pad_masked": masked if count else True,
    }
    moves.show(wanted)


def _temperature() -> None:
    state = st.session_state
    options = sorted({*TEMPERATURES, state["temperature"]})
    st.select_slider(
        "temperature",
        options,
        key="temperature",
        format_func=lambda value: "hard" if value == 0 else f"{value:g}",
        on_change=_moved,
        args=("temperature",),
        width=300,
        help="Divides the scores before the softmax: below 1 sharper, above 1 flatter, "
        "“hard” looks at one word only.",
    )


def _causal(scene: Scene) -> None:
    place = scene.place
    crossed = "cross" in scene.before.maps
    st.segmented_control(
        "causal mask",
        ["on", OFF],
        key="causal",
        required=True,
        on_change=_moved,
        args=("causal",),
        disabled=_no_causal(place),
        help="On hides later words. " + (CROSSED if crossed else ""),
    )


def _no_causal(place: Place) -> bool:
    """Whether there is no causal mask to switch: cross-attention reads the other sentence."""
    return place.block == "cross" and place.scope != "everything"


def _window() -> None:
    state = st.session_state
    numbers = sorted({n for n in (*WINDOWS, state["window"]) if isinstance(n, int)})
    st.select_slider(
        "window",
        [*numbers, OFF],
        key="window",
        on_change=_moved,
        args=("window",),
        width=230,
        help="How many tokens to each side a word may look at.",
    )


def _head_state() -> None:
    scaling, factor = st.session_state["head_state"] == "scale", st.session_state["factor"]
    with st.container(horizontal=True, width="content", vertical_alignment="top"):
        st.segmented_control(
            "heads",
            list(HEAD_STATES),
            key="head_state",
            required=True,
            on_change=_moved,
            args=("head_state",),
            help="Scale multiplies what a head hands on; uniform looks at all visible words "
            "alike; off hands on nothing.",
        )
        st.number_input(
            "factor",
            key="factor",
            min_value=min(-5.0, factor),
            max_value=max(5.0, factor),
            step=0.25,
            on_change=_moved,
            args=("factor",),
            disabled=not scaling,
            width=130,
        )


def _hide(keys: Tokens, kind: Kind) -> None:
    what = "patches" if kind.takes == "image" else f"{kind.thing}s"
    st.multiselect(
        f"hide {what}",
        _options(keys, "hide"),
        key="hide",
        format_func=lambda key: at(keys.labels, key),
        on_change=_moved,
        args=("hide",),
        placeholder=f"choose {what} that nobody may look at",
        width=420,
    )


def _edge(keys: Tokens) -> None:
    st.multiselect(
        "cut links of the chosen row",
        _options(keys, "edge"),
        key="edge",
        format_func=lambda key: at(keys.labels, key),
        on_change=_moved,
        args=("edge",),
        placeholder="choose what this row may not look at",
        width=420,
        disabled=st.session_state["words"] or not st.session_state["special"],
        help="Needs the map in pieces, with its marks: a row is then one token of the model.",
    )


def _padding() -> None:
    with st.container(horizontal=True, width="content", vertical_alignment="bottom"):
        st.number_input(
            "padding",
            key="pad",
            min_value=0,
            max_value=max(MOST_PADDING, st.session_state["pad"]),
            on_change=_moved,
            args=("pad",),
            width=130,
            help="Empty places behind the text, as shorter sentences get them when several are "
            "read together. The mask hides them; without it the model looks at them.",
        )
        st.toggle(
            "masked",
            key="pad_masked",
            on_change=_moved,
            args=("pad_masked",),
            disabled=not st.session_state["pad"],
        )


def _options(keys: Tokens, name: str) -> list[int]:
    """The keys to choose from, and what an edit from a link already chose beyond them."""
    return sorted({*range(len(keys)), *st.session_state[name]})


def _moved(name: str) -> None:
    moves.moved(name, lambda: _write(name))


def _write(name: str) -> None:
    """Write what a control says into the edits."""
    state, place, now = st.session_state, visit.place(), visit.intervention()
    value = state[name]
    if value is None:  # nothing is chosen: a second click on the choice took it away
        return
    if name == "temperature":
        now = edits.set_temperature(now, place, value)
    elif name == "causal":
        now = edits.set_causal(now, place, value == "on")
    elif name == "window":
        now = edits.set_window(now, place, None if value == OFF else value)
    elif name == "hide":
        now = edits.set_hidden(now, place, _numbers(value))
    elif name in ("pad", "pad_masked"):
        now = edits.set_padding(now, state["pad"] or 0, state["pad_masked"])
    elif name == "edge":
        row = next(iter(_numbers([state["token"]])), 0)
        now = edits.set_cut(now, place, row, _numbers(value))
    else:
        now = edits.set_head_state(now, place, state["head_state"] or "on", state["factor"])
    visit.change(now)


def _numbers(chosen: list[Any]) -> list[int]:
    """The tokens among chosen options; a word of an earlier sentence comes as its label."""
    return [number for number in chosen if isinstance(number, int)]
