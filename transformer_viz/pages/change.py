"""Change it: the controls of one place, and the active edits as chips that can be taken away."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ..interventions import BlockEdges, Edit, Intervention
from ..records import Tokens, Trace
from ..sites import MAPS, map_name
from . import edits, visit
from .edits import HALF, HEAD_STATES, SCOPES, Place
from .words import plain

#: Temperatures from hard (0) to 5, evenly spaced in their logarithm, with 1 in the middle.
TEMPERATURES = (
    *(0.0, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    1.0,
    *(1.1, 1.25, 1.4, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
)
OFF = "off"
WINDOWS: tuple[int | str, ...] = (*range(11), 12, 16, 24, 32, OFF)


def controls(trace: Trace, place: Place, changes: Intervention) -> None:
    """The card: what a change applies to, the controls, and what is changed already."""
    keys = keys_of(trace, place.block)
    _show(place, changes)
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
            st.button("back to clean", key="clean", on_click=visit.clean, disabled=not changes)
        _chips(trace, changes)
        with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
            _temperature()
            _causal(place)
            _window()
            _head_state()
        with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
            _hide(keys)
            _edge(keys)


def keys_of(trace: Trace, block: str) -> Tokens:
    """The tokens that a map's columns stand for."""
    return trace.tokens("target" if block == "decoder" else "source")


def _show(place: Place, changes: Intervention) -> None:
    """Let every control show the edit of the selected head.

    Values are written only where they differ: writing one back that the visitor has just moved
    on from would pull the slider from under the hand.
    """
    state, factor = edits.head_state(changes, place)
    radius = edits.window(changes, place)
    wanted: dict[str, Any] = {
        "temperature": edits.temperature(changes, place),
        "causal": "on" if edits.causal(changes, place) and not _no_causal(place) else OFF,
        "window": OFF if radius is None else radius,
        "hide": list(edits.hidden(changes, place)),
        "edge": list(edits.cut(changes, place, st.session_state["token"])),
        "head_state": state,
        "factor": factor if state == "scale" else HALF,
    }
    for name, value in wanted.items():
        if st.session_state.get(name) != value:
            st.session_state[name] = value


def _chips(trace: Trace, changes: Intervention) -> None:
    """The active edits in words; a click takes one away. The room is there also when empty."""
    with st.container(horizontal=True, key="chips", vertical_alignment="center"):
        if not changes:
            st.html(
                '<span class="tv-quiet">nothing is changed: this is the model as trained</span>'
            )
        for number, edit in enumerate(changes):
            text = plain(said(edit, trace))
            st.button(f"{text} ✕", key=f"edit-{number}", on_click=_remove, args=(edit,))


def said(edit: Edit, trace: Trace) -> str:
    """An edit in words, its key numbers as the words they mean."""
    decoder = (edit.stack, edit.block) == MAPS["decoder"]
    keys = trace.tokens("target" if decoder else "source").labels
    if not isinstance(edit, BlockEdges):
        return edit.describe(keys)
    rows = edge_rows(edit, trace)
    links = [f"“{_at(rows, query)}” → “{_at(keys, key)}”" for query, key in edit.edges]
    return f"{edit.place}: {', '.join(links)} cut"


def edge_rows(edit: BlockEdges, trace: Trace) -> tuple[str, ...]:
    """The names of the rows that an edge's queries mean."""
    name = map_name(edit.stack or "decoder", edit.block or "self")
    if name == "encoder" or trace.produced is None:
        return trace.source.labels
    return trace.produced.labels


def _at(labels: tuple[str, ...], number: int) -> str:
    return labels[number] if number < len(labels) else f"word {number}"


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


def _causal(place: Place) -> None:
    st.segmented_control(
        "causal mask",
        ["on", OFF],
        key="causal",
        required=True,
        on_change=_moved,
        args=("causal",),
        disabled=_no_causal(place),
        help="On hides later words. Cross-attention has no causal mask: it reads the other "
        "sentence. Choose Encoder or Decoder, or apply to everything.",
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
    scaling = st.session_state["head_state"] == "scale"
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
            min_value=-5.0,
            max_value=5.0,
            step=0.25,
            on_change=_moved,
            args=("head_state",),
            disabled=not scaling,
            width=130,
        )


def _hide(keys: Tokens) -> None:
    st.multiselect(
        "hide words",
        _options(keys, "hide"),
        key="hide",
        format_func=lambda key: _at(keys.labels, key),
        on_change=_moved,
        args=("hide",),
        placeholder="choose words that nobody may look at",
        width=420,
    )


def _edge(keys: Tokens) -> None:
    st.multiselect(
        "cut links of the chosen row",
        _options(keys, "edge"),
        key="edge",
        format_func=lambda key: _at(keys.labels, key),
        on_change=_moved,
        args=("edge",),
        placeholder="choose words that this row may not look at",
        width=420,
        disabled=st.session_state["words"] or not st.session_state["special"],
        help="Needs the map in pieces, with its marks: a row is then one token of the model.",
    )


def _options(keys: Tokens, name: str) -> list[int]:
    """The keys to choose from, and what an edit from a link already chose beyond them."""
    return sorted({*range(len(keys)), *st.session_state[name]})


def _moved(name: str) -> None:
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
    elif name == "edge":
        row = next(iter(_numbers([state["token"]])), 0)
        now = edits.set_cut(now, place, row, _numbers(value))
    else:
        now = edits.set_head_state(now, place, value, state.get("factor", HALF))
    visit.change(now)


def _numbers(chosen: list[Any]) -> list[int]:
    """The tokens among chosen options; a word of an earlier sentence comes as its label."""
    return [number for number in chosen if isinstance(number, int)]


def _remove(edit: Edit) -> None:
    visit.change(visit.intervention().without(edit))
