"""Control bar of one site: scope, edits, active changes, undo and redo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...components.edit_sliders import NEWEST, OFF, TEMPERATURE, WINDOW, Slider
from ...components.slider import slider_data
from ...core.editing import edit_controls
from ...core.editing.edit_controls import HALF, HEAD_STATES, SCOPES, Place
from ...core.interventions import Intervention
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import mark, say
from ..engine.model_kind import Kind
from ..live import frames
from ..render.payloads import PARTS
from ..session import changes, widget_sync
from ..session.keys import private
from ..session.notices import rewrite_widget
from ..session.scene import Scene
from ..session.state import state
from ..session.view_options import newest
from ..ui import components, layout
from .edit_chips import at, chips, ways_back
from .overview import compare

CROSSED = mark(
    "Cross-attention has no causal mask: it reads the other sentence. Choose Encoder or Decoder, "
    "or apply to everything."
)
HIDE = {
    "word": (mark("hide words"), mark("choose words that nobody may look at")),
    "patch": (mark("hide patches"), mark("choose patches that nobody may look at")),
    "vector": (mark("hide vectors"), mark("choose vectors that nobody may look at")),
}
FOLDED = ("factor", "hide", "edge", "pad", "pad_masked")  # controls in the panel "more"
MOST_PADDING = 20  # tokens; more would show nothing new


HINT = mark("Move the temperature: what happens to the sentence?")
OTHER_HINT = mark("Move the temperature: what happens to the pictures?")


def dock(
    scene: Scene,
    parts: frames.Parts = PARTS,
    *,
    live: bool = True,
    comparing: bool = True,
) -> DeltaGenerator:
    """Draw the control bar at the bottom of a page; return the container for progress displays.

    It stays in view while the page scrolls, so that controls and results are on one screen. A page
    draws it last.

    Args:
        scene: State of the screen.
        parts: Pictures that update while a slider is dragged.
        live: True to update during the drag; a page of charts waits until the slider rests.
        comparing: True if the page can show the earlier run and the difference.
    """
    place, keys = scene.place, keys_of(scene.now, scene.place.map_name)
    _show(place, scene.changes)
    line = frames.line(scene, parts) if live else ""
    with st.container(key="dock"), st.container(border=True, key="card-change"):
        waiting = st.container(key="waiting-free")
        with layout.row("bottom", gap="medium", key="dock-hand"):
            _scope()
            _slider(scene, TEMPERATURE, 210, line)
            _slider(scene, WINDOW, 190, line)
            _causal(scene)
            _head_state()
            _more(scene, keys)
        with layout.row("center", spread=True, key="dock-done"):
            hint = say(HINT if scene.kind.writes else OTHER_HINT)
            chips(scene, hint)
            with layout.row("center", fit=True, key="dock-ways"):
                if comparing:
                    compare(scene)
                ways_back(disabled=not scene.changes)
    return waiting


def _more(scene: Scene, keys: Tokens) -> None:
    """Draw the less frequent edits in a separate panel."""
    panel = layout.unfolding(say("more"), "more")
    if panel is None or not private.unfolded:  # new controls must show the values of their run
        for name in FOLDED:
            rewrite_widget(name)
    private.unfolded = panel is not None
    if panel is None:
        return
    with panel:
        _factor()
        _hide(keys, scene.kind)
        _edge(keys)
        if scene.kind.padded:
            _padding()


def _scope() -> None:
    st.segmented_control(
        say("applies to"),
        list(SCOPES),
        key="scope",
        format_func=lambda scope: say(SCOPES[scope]),
        required=True,
    )


def keys_of(trace: Trace, block: str) -> Tokens:
    """Return the tokens of a map's columns."""
    return trace.tokens("target" if block == "decoder" else "source")


def _show(place: Place, changes: Intervention) -> None:
    """Set every control to the edit of the selected head."""
    way, factor = edit_controls.head_state(changes, place)
    count, masked = edit_controls.padding(changes)
    wanted = {
        "causal": "on" if edit_controls.causal(changes, place) and not _no_causal(place) else OFF,
        "hide": list(edit_controls.hidden(changes, place)),
        "edge": list(edit_controls.cut(changes, place, state.token)),
        "head_state": way,
        "factor": factor if way == "scale" else HALF,
        "pad": count,
        "pad_masked": masked if count else True,
    }
    widget_sync.show(wanted)


def _slider(scene: Scene, slider: Slider, width: int, line: str) -> None:
    """Draw a slider with the selected head's value; its pictures update while it is dragged."""
    shown = slider.shown(scene.changes, scene.place)
    data = slider_data(
        slider.name,
        slider.stops(shown),
        chosen=slider.write(shown),
        own=slider.write(slider.own),
        title=say(slider.title),
        help=say(slider.help),
        line=line,
        seq=newest(),
    )
    components.slider(data, key=slider.name, moved=lambda said: _slid(slider, said), width=width)


def _causal(scene: Scene) -> None:
    place = scene.place
    crossed = "cross" in scene.before.maps
    st.segmented_control(
        say("causal mask"),
        ["on", OFF],
        key="causal",
        format_func=say,
        required=True,
        on_change=_moved,
        args=("causal",),
        disabled=_no_causal(place),
        help=say("On hides later words.") + " " + (say(CROSSED) if crossed else ""),
    )


def _no_causal(place: Place) -> bool:
    """Return True without a causal mask to switch: cross-attention reads the other sentence."""
    return place.map_name == "cross" and place.scope != "everything"


def _head_state() -> None:
    st.segmented_control(
        say("heads"),
        list(HEAD_STATES),
        key="head_state",
        format_func=lambda state: say(HEAD_STATES[state]),
        required=True,
        on_change=_moved,
        args=("head_state",),
        help=say(
            "Scale multiplies what a head hands on; uniform looks at all visible words "
            "alike; off hands on nothing."
        ),
    )


def _factor() -> None:
    """Draw the input for the factor of a scaled head."""
    scaling, factor = st.session_state["head_state"] == "scale", st.session_state["factor"]
    st.number_input(
        say("factor"),
        key="factor",
        min_value=min(-5.0, factor),
        max_value=max(5.0, factor),
        step=0.25,
        on_change=_moved,
        args=("factor",),
        disabled=not scaling,
        width=layout.NUMBER_WIDTH,
    )


def _hide(keys: Tokens, kind: Kind, width: int = 420) -> None:
    label, placeholder = HIDE[kind.thing]
    st.multiselect(
        say(label),
        _options(keys, "hide"),
        key="hide",
        format_func=lambda key: at(keys.labels, key),
        on_change=_moved,
        args=("hide",),
        placeholder=say(placeholder),
        width=width,
    )


def _edge(keys: Tokens) -> None:
    st.multiselect(
        say("cut links of the chosen row"),
        _options(keys, "edge"),
        key="edge",
        format_func=lambda key: at(keys.labels, key),
        on_change=_moved,
        args=("edge",),
        placeholder=say("choose what this row may not look at"),
        width=420,
        disabled=state.words or not state.special,
        help=say("Needs the map in pieces, with its marks: a row is then one token of the model."),
    )


def _padding() -> None:
    with layout.row("bottom", fit=True):
        st.number_input(
            say("padding"),
            key="pad",
            min_value=0,
            max_value=max(MOST_PADDING, st.session_state["pad"]),
            on_change=_moved,
            args=("pad",),
            width=layout.NUMBER_WIDTH,
            help=say(
                "Empty places behind the text, as shorter sentences get them when several are "
                "read together. The mask hides them; without it the model looks at them."
            ),
        )
        st.toggle(
            say("masked"),
            key="pad_masked",
            on_change=_moved,
            args=("pad_masked",),
            disabled=not st.session_state["pad"],
        )


def _options(keys: Tokens, name: str) -> list[int]:
    """Return the keys to choose from, including those beyond the sentence from a link's edit."""
    return sorted({*range(len(keys)), *st.session_state[name]})


def _moved(name: str) -> None:
    widget_sync.moved(name, lambda: _write(name))


def _write(name: str) -> None:
    """Write a control's value into the edits."""
    value = st.session_state.get(name)
    if value is None:  # a second click cleared the choice, or a lost connection removed the control
        return
    place, now = changes.place(), changes.intervention()
    if name == "causal":
        now = edit_controls.set_causal(now, place, value == "on")
    elif name == "hide":
        now = edit_controls.set_hidden(now, place, _numbers(value))
    elif name in ("pad", "pad_masked"):
        now = edit_controls.set_padding(
            now, st.session_state.get("pad") or 0, bool(st.session_state.get("pad_masked", True))
        )
    elif name == "edge":
        row = next(iter(_numbers([state.token])), 0)
        now = edit_controls.set_cut(now, place, row, _numbers(value))
    else:
        now = edit_controls.set_head_state(
            now, place, st.session_state["head_state"] or "on", st.session_state["factor"]
        )
    changes.change(now)


def _numbers(chosen: list[Any]) -> list[int]:
    """Return the tokens among chosen options; a token of an earlier sentence comes as its label."""
    return [number for number in chosen if isinstance(number, int)]


def _slid(slider: Slider, said: object) -> None:
    """Store the final value of a slider; browser input is untrusted."""
    if not isinstance(said, Mapping):
        return
    seq, stroke, text = said.get("seq"), said.get("stroke"), said.get("value")
    if not isinstance(seq, int) or not 0 <= seq <= NEWEST:
        return
    private.frame_number = max(newest(), seq)  # for rejected values too: the browser waits for it
    try:
        value = slider.read(str(text))
    except ValueError:
        return
    widget_sync.moved(slider.name, lambda: _leave(slider, value, stroke))


def _leave(slider: Slider, value: Any, stroke: object) -> None:
    """Write the final value of a slider.

    A drag is one undo step, even if the slider rested on the way.
    """
    history = private.history
    if history.past and private.stroke == (stroke, state.edits):
        state.edits = history.past[-1]
        private.history = replace(history, past=history.past[:-1])
    changes.change(slider.moved(changes.intervention(), changes.place(), value))
    private.stroke = (stroke, state.edits)
