"""Page Step inside: the computation of one head, from a token's vector to its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from ...components.walkthrough.data import inside_data
from ...core.stages import Number, Stage, Terms, Walkthrough
from ...i18n import mark, say
from ...metrics.attention.map_cells import cells
from ..cards import head_card, overview, token_chips
from ..cards.dock import dock
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..engine.task import Task
from ..page_template import show
from ..session import notices
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..shell.presenter import presenting
from ..ui import components, layout
from ..ui.progress import run_with_progress
from ..ui.text_format import escape_markdown

QUESTION = mark("What happens inside a head?")
MAX_ADDRESS_CHARS = 200  # characters of an address


@dataclass(frozen=True)
class Opened:
    """Open parts of the page: token row, station, address of a number, presenter mode."""

    row: int
    step: int
    number: str
    present: bool


def draw(engine: Engine) -> None:
    """Draw the page Step inside."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    place = scene.place
    found = cells(scene.now, place.map_name, place.layer, place.head)
    head_card.clamp_row(found)
    token_chips.apply_picked(found)
    rows = token_chips.rows_for_map(scene, found)
    written = token_chips.sentences(scene, rows, token_chips.remember_click)
    _choices(scene, found.rows.labels)
    with st.container(border=True, key="card-inside"):
        waiting = st.container(key="waiting-inside")
        row = state.token
        chain = run_with_progress(
            lambda task: scene.inside(row, task),
            key="inside",
            label=say("Following the numbers ..."),
            about=(scene.question, scene.changes.to_json(), place, row),
            where=waiting,
        )
        if not chain.stages:
            st.info(escape_markdown(say(chain.problem)))
        else:
            _clamp_step(chain)
            terms = _terms(scene, chain)
            opened = Opened(row, state.step, state.number, presenting())
            components.inside(
                _data(scene, chain, terms, opened), key="inside", stepped=_stepped, opened=_open
            )
    parts = {"inside": lambda moved: _moved(moved, opened)} if chain.stages else {}
    docked = dock(scene, parts, live=bool(parts), comparing=False)
    return written_freely(scene, written, docked)


def _choices(scene: Scene, words: tuple[str, ...]) -> None:
    """Draw the select boxes of block, layer, head and word."""
    layers, heads = scene.now.thumbnail(scene.place.map_name).shape[:2]
    notices.rewrite_widget("token")
    with layout.row("center", spread=True, key="fold-inside"):
        layout.heading(say(QUESTION), fit=True)
        with layout.row("center", fit=True):
            overview.block(scene)
            _list(say("layer"), range(layers), "layer", [f"L{n}" for n in range(layers)], 84)
            _list(say("head"), range(heads), "head", [f"H{n}" for n in range(heads)], 84)
            _list(say("word"), range(len(words)), "token", words, 150)


def _list(
    label: str, options: range, key: str, names: list[str] | tuple[str, ...], width: int
) -> None:
    st.selectbox(
        label,
        options,
        key=key,
        format_func=names.__getitem__,
        width=width,
        label_visibility="collapsed",
    )


# ---- open station and number --------------------------------------------------------------------


def _clamp_step(chain: Walkthrough) -> None:
    """Keep the open station if the chain still has it, else clamp its index."""
    known = [_known_by(stage) for stage in chain]
    step, name = private.station
    if state.step != step or name not in known:
        notices.clamp_index("step", len(known), say("station"))
    elif known[step : step + 1] != [name]:  # another chain has it at another index
        state.step = known.index(name)
    private.station = (state.step, known[state.step])


def _known_by(stage: Stage) -> str:
    """Return a name of a station that is the same for all attention blocks."""
    return f"{stage.kind} {'feed_forward' if stage.block == 'feed_forward' else ''}"


def _number(chain: Walkthrough) -> Number | None:
    """Return the opened number if it belongs to the open station; else clear it."""
    if not state.number:
        return None
    here = chain.stages[state.step].name
    try:
        number = chain.number(state.number)
    except LookupError:
        number = None
    if number is None:
        _tell(state.number)
    if number is None or number.stage != here:
        state.number = ""
        return None
    return number


def _terms(scene: Scene, chain: Walkthrough) -> Terms | None:
    """Return the terms of the opened number; clear a number that is not a sum."""
    number = _number(chain)
    if number is None:
        return None
    try:
        return scene.terms(chain, number)
    except LookupError:
        _tell(str(number))
        state.number = ""
        return None


def _tell(number: str) -> None:
    notices.about_link(
        say("In the link, number names {number}, which is no sum of this chain.", number=number)
    )


def _stepped(said: object) -> None:
    """Open another station, as sent by the browser."""
    match said:
        case {"step": int(step)} if 0 <= step < 1000:
            del private.station
            if state.step != step:
                st.session_state.update(step=step, number="")


def _open(said: object) -> None:
    """Open or close a number, as sent by the browser; invalid data is ignored."""
    match said:
        case {"step": int(), "number": str(number)}:
            _stepped(said)
            state.number = number[:MAX_ADDRESS_CHARS]


# ---- data of the component ----------------------------------------------------------------------


def _data(scene: Scene, chain: Walkthrough, terms: Terms | None, opened: Opened) -> bytes:
    return inside_data(
        scene.now,
        chain,
        step=opened.step,
        terms=terms,
        present=opened.present,
        seq=scene.look.seq,
    )


def _moved(scene: Scene, opened: Opened, task: Task | None = None) -> bytes:
    """Return the chain's data while a slider is dragged; thread-safe, without session state."""
    chain = scene.inside(opened.row, task)
    terms = None
    if opened.number:
        try:
            terms = scene.terms(chain, chain.number(opened.number), task)
        except LookupError:  # a masked score has no terms
            terms = None
    return _data(scene, chain, terms, opened)
