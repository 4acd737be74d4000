"""Explore: which words does each head look at, and what becomes of it when it is changed?"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import streamlit as st

from ..metrics import describe_row, entropy_change
from ..views import head_map, overview
from ..views.cells import Cells, cells
from ..views.theme import palette
from . import frame, visit
from .change import controls
from .edits import hidden
from .engine import Engine
from .result import came_of_it, follow_up, spoken
from .scene import Scene, scene_of, wait
from .words import plain

QUESTION = "Which words does each head look at?"
COMPARE = {"now": "Now", "before": "Before", "difference": "Difference"}
BLOCKS = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}
STILL = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}


def draw(engine: Engine) -> None:
    """The page Explore, then the loading of the model in the background."""
    _body(engine)
    engine.prepare(st.session_state["model"])


@st.fragment
def _body(engine: Engine) -> None:
    """Everything that a change repaints: one fragment, so that the frame stays untouched."""
    visit.heed(engine)
    notices = st.container()
    visit.save(engine)
    with _explained(engine):
        _page(engine)
    with notices:
        for complaint in visit.complaints():
            st.warning(plain(complaint))
    visit.save(engine)


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """Whatever goes wrong inside, the visitor reads a sentence and keeps the footer."""
    try:
        yield
    except (ValueError, LookupError, OSError) as error:
        _explain(spoken(error))
        frame.footer(engine, None, None)
    except Exception as error:  # the last net: a visitor never meets a traceback
        traceback.print_exc(file=sys.stderr)
        _explain(f"This did not work ({type(error).__name__}: {spoken(error)}).")
        frame.footer(engine, None, None)


def _explain(sentence: str) -> None:
    st.error(plain(sentence))
    if visit.intervention():
        st.button("back to clean", key="clean-after-error", on_click=visit.clean)


def _page(engine: Engine) -> None:
    question = visit.question()
    if not question.text:
        st.info("Type an English sentence above, or choose one of the examples.")
        frame.footer(engine, None, None)
        return
    wait(engine, question)
    began = time.perf_counter()
    scene = scene_of(engine, question)
    _words(scene)
    _pictures(scene)
    controls(scene.before, scene.place, scene.changes)
    follow = came_of_it(scene)
    frame.footer(engine, scene.now, time.perf_counter() - began)
    if scene.changes:
        follow_up(scene, follow)


def _words(scene: Scene) -> None:
    """The translation to read, and both sentences as chips; hidden words are struck out."""
    st.html(f'<p class="tv-lead" data-what="translation">{escape(scene.answer.text)}</p>')
    trace, place = scene.before, scene.place
    gone = hidden(scene.changes, place)
    keys_in_target = place.block == "decoder"
    lit = st.session_state["token"]
    rows = [
        frame.chips(
            "source",
            trace.source,
            lit if place.block == "encoder" else None,
            () if keys_in_target else gone,
        )
    ]
    if trace.target is not None:
        on = lit + 1 if lit is not None and place.block != "encoder" else None
        rows.append(frame.chips("target", trace.target, on, gone if keys_in_target else ()))
    st.html("".join(rows))
    lost = scene.engine.lost(scene.question)
    if lost:
        seen = plain(", ".join(lost))
        st.info(f"The model's vocabulary cannot see {seen}: it reads the rest.")


def _pictures(scene: Scene) -> None:
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.html(f'<h2 class="tv-question">{QUESTION}</h2>', width="content")
        with st.container(horizontal=True, width="content"):
            st.segmented_control(
                "block",
                list(scene.before.maps),
                key="block",
                format_func=BLOCKS.__getitem__,
                required=True,
                label_visibility="collapsed",
            )
            st.segmented_control(
                "compare",
                list(COMPARE),
                key="compare",
                format_func=COMPARE.__getitem__,
                required=True,
                label_visibility="collapsed",
                disabled=not scene.changes,
            )
    with st.container(key="pictures"):
        left, right = st.columns([10, 9])
        with left.container(border=True, height="stretch", key="card-overview"):
            _overview(scene)
        with right.container(border=True, height="stretch", key="card-head"):
            _head(scene)


def _overview(scene: Scene) -> None:
    now, before = scene.shown
    place = scene.place
    picture = overview(
        now,
        place.block,
        before=before,
        selected=(place.layer, place.head),
        dark=visit.dark(),
    )
    st.plotly_chart(
        picture,
        key="overview",
        theme=None,
        config=STILL,
        on_select=_pick_head,
        selection_mode="points",
        alt=f"All heads of {place.block}; {place.site.label} is opened.",
    )
    st.html(f'<span class="tv-quiet">{escape(picture.layout.meta["caption"])}</span>')
    layers, heads = now.thumbnail(place.block).shape[:2]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox("layer", range(layers), key="layer", format_func=lambda n: f"L{n}", width=100)
        st.selectbox("head", range(heads), key="head", format_func=lambda n: f"H{n}", width=100)
        st.toggle("whole words", key="words", help="Pieces of a word are put together.")
        st.toggle(
            "start and end marks",
            key="special",
            help="Without them each row is divided by what is left.",
        )


def _pick_head() -> None:
    """A click on a tile opens that head; a click that only lifts the selection changes nothing."""
    chosen = _clicked("overview")
    if chosen:
        st.session_state.update(layer=chosen[0], head=chosen[1])


def _clicked(chart: str) -> tuple[int, ...]:
    """What a click into a picture means: its marker's data, which may come as list or as dict."""
    points = st.session_state[chart].selection.points
    if not points:
        return ()
    data = points[0]["customdata"]
    return tuple(int(value) for value in (data.values() if isinstance(data, dict) else data))


def _head(scene: Scene) -> None:
    now, before = scene.shown
    state, place = st.session_state, scene.place
    words, special = state["words"], state["special"]
    found = cells(now, place.block, place.layer, place.head, words=words, special=special)
    _settle_row(found)
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.html(
            f'<h2 class="tv-question">{place.site.label} '
            f'<span class="tv-quiet">{place.block} · rows look at columns</span></h2>',
            width="content",
        )
        st.selectbox(
            "row",
            [tokens[0] for tokens in found.members],
            key="token",
            format_func=lambda token: found.rows.labels[found.row_of(token) or 0],
            width=170,
            label_visibility="collapsed",
            help="The word whose links are told below; a click into the map chooses it too.",
        )
    picture = head_map(
        now,
        place.block,
        place.layer,
        place.head,
        before=before,
        most=scene.most,
        token=state["token"],
        words=words,
        special=special,
        dark=visit.dark(),
    )
    said = _row(found, found.row_of(state["token"]) or 0)
    st.plotly_chart(
        picture,
        key="head-map",
        theme=None,
        config=STILL,
        on_select=_pick_row,
        selection_mode="points",
        alt=said,
    )
    _below(scene, found, said, before is not None)


def _settle_row(found: Cells) -> None:
    """Let the chosen row be the first token of a row that is shown."""
    state = st.session_state
    row = found.row_of(state["token"])
    if row is None:
        visit.settle("token", sum(map(len, found.members)), "word")
        row = found.row_of(state["token"]) or 0
    state["token"] = found.members[row][0]


def _pick_row() -> None:
    chosen = _clicked("head-map")
    if chosen:
        st.session_state["token"] = chosen[0]


def _row(found: Cells, row: int) -> str:
    return describe_row(found.weights[row], found.rows.labels[row], found.columns.labels)


def _below(scene: Scene, found: Cells, said: str, difference: bool) -> None:
    """The row in words, the head's entropy, the colour scale, and what to be careful about."""
    bits = entropy_change(scene.before, scene.now, scene.place.site)
    spread = f"{bits[0]:.2f} → {bits[1]:.2f}" if scene.changes else f"{bits[0]:.2f}"
    ends = ("less", "more") if difference else ("0", f"{scene.most:.2f}")
    colours = palette(visit.dark())
    ramp = colours.changes if difference else colours.amounts
    legend = (
        f'{ends[0]} <span class="tv-legend" style="background:linear-gradient(90deg,'
        f'{",".join(ramp)})"></span> {ends[1]}'
    )
    hatched = " · hatched: masked" if found.masked.any() else ""
    st.html(
        f'<p class="tv-say" data-what="row">{escape(said)}</p>'
        f'<span class="tv-quiet">entropy {spread} bits · {legend}{hatched}</span>'
    )
    if found.note:
        st.caption(found.note)
    if found.blind:
        blind = plain(", ".join(found.blind))
        st.caption(f"Nothing is left to look at for {blind}: these rows are zero.")
