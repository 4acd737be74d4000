"""Explore: which words does each head look at, and what becomes of it when it is changed?"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ..interventions import Intervention
from ..metrics import describe_row, entropy_change
from ..records import Trace
from ..views import head_map, outcome, overview
from ..views.cells import Cells, cells
from ..views.theme import palette
from . import frame, visit
from .change import controls
from .edits import Place, answers_itself, hidden
from .engine import Answer, Engine, Question, whole_layer
from .words import changed_words

QUESTION = "Which words does each head look at?"
COMPARE = {"now": "Now", "before": "Before", "difference": "Difference"}
BLOCKS = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross"}
STILL = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}


@dataclass(frozen=True, eq=False)
class Scene:
    """What is on the screen: the clean run, the changed one (the same while nothing is), where."""

    engine: Engine
    question: Question
    answer: Answer
    now: Trace
    place: Place
    changes: Intervention

    @property
    def before(self) -> Trace:
        return self.answer.trace

    @property
    def most(self) -> float:
        """The head's largest weight in both runs, so that both are coloured alike."""
        place = self.place
        both = (t.block(place.block, place.layer).weights for t in (self.before, self.now))
        return max(float(weights[place.head].max()) for weights in both) or 1.0

    @property
    def shown(self) -> tuple[Trace, Trace | None]:
        """The run to draw, and the one to subtract from it."""
        compare = st.session_state["compare"]
        return (
            self.before if compare == "before" else self.now,
            self.before if compare == "difference" else None,
        )


def draw(engine: Engine) -> None:
    """The page Explore, then the loading of the model in the background."""
    _body(engine)
    engine.start(st.session_state["model"])


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
            st.warning(complaint)
    visit.save(engine)


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """Whatever goes wrong inside, the visitor reads a sentence and keeps the footer."""
    try:
        yield
    except (ValueError, LookupError, OSError) as error:
        _explain(_sentence(error))
        frame.footer(engine, None, None)
    except Exception as error:  # the last net: a visitor never meets a traceback
        traceback.print_exc(file=sys.stderr)
        _explain(f"This did not work ({type(error).__name__}: {_sentence(error)}).")
        frame.footer(engine, None, None)


def _sentence(error: BaseException) -> str:
    """What an error says, without the quotation marks that a KeyError adds."""
    return str(error.args[0]) if error.args else type(error).__name__


def _explain(sentence: str) -> None:
    st.error(sentence)
    if visit.intervention():
        st.button("back to clean", key="clean-after-error", on_click=_clean)


def _clean() -> None:
    visit.change(Intervention())


def _page(engine: Engine) -> None:
    question = visit.question()
    if not question.text:
        st.info("Type an English sentence above, or choose one of the examples.")
        frame.footer(engine, None, None)
        return
    _wait(engine, question)
    began = time.perf_counter()
    scene = _scene(engine, question)
    _words(scene)
    _pictures(scene)
    controls(scene.before, scene.place, scene.changes)
    follow = _came_of_it(scene)
    frame.footer(engine, scene.now, time.perf_counter() - began)
    if scene.changes:
        _free(scene, follow)


def _wait(engine: Engine, question: Question) -> None:
    """Wait for the model, unless the stored example answers without it."""
    stored = engine.example(question) is not None and not visit.intervention()
    if not stored and not engine.ready(question.model):
        with st.spinner(f"Loading {question.model} ..."):
            engine.model(question.model)


def _scene(engine: Engine, question: Question) -> Scene:
    """Run what has to be run. The selection from the link is fitted to what the model has."""
    state = st.session_state
    answer = engine.clean(question, whole_layer(state["block"], state["layer"]))
    _settle(answer.trace)
    place, changes = visit.place(), visit.intervention()
    layer = whole_layer(place.block, place.layer)
    answer = engine.clean(question, layer)
    now = engine.changed(question, answer, changes, layer) if changes else answer.trace
    return Scene(engine, question, answer, now, place, changes)


def _settle(trace: Trace) -> None:
    state = st.session_state
    if state["block"] not in trace.maps:
        visit.complaints().append(
            f"This model has no {state['block']} attention; it has {', '.join(trace.maps)}."
        )
        state["block"] = trace.maps[-1]
    layers, heads = trace.thumbnail(state["block"]).shape[:2]
    visit.settle("layer", layers, "layer")
    visit.settle("head", heads, "head")


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
        st.info(f"The model's vocabulary cannot see {', '.join(lost)}: it reads the rest.")


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
        st.caption(f"Nothing is left to look at for {', '.join(found.blind)}: these rows are zero.")


def _came_of_it(scene: Scene) -> DeltaGenerator:
    """The sentences and the target words' probabilities; gives the place of the free sentence."""
    with st.container(border=True, key="card-outcome"):
        st.html('<h2 class="tv-question">What came of it</h2>')
        follow = st.empty()
        with follow:
            _sentences(scene, None)
        if scene.changes and answers_itself(scene.changes):
            st.caption(
                "The causal mask is off, so the held pass may look at the very words it is asked "
                "about: these probabilities flatter it. The freely decoded sentence does not."
            )
        after = scene.now if scene.changes else None
        if scene.before.produced is not None:
            picture = outcome(scene.before, after, dark=visit.dark())
            st.html(picture.html)
            st.html(f'<span class="tv-quiet">{escape(picture.caption)}</span>')
    return follow


def _free(scene: Scene, follow: DeltaGenerator) -> None:
    """The sentence of the changed model when nobody holds its words, put where it belongs."""
    try:
        after = changed_words(scene.answer.text, scene.engine.free(scene.question, scene.changes))
        after = after or "<i>nothing: the model ends at once</i>"
    except (ValueError, LookupError) as error:
        after = f"<i>{escape(_sentence(error))}</i>"
    with follow:
        _sentences(scene, after)


def _sentences(scene: Scene, after: str | None) -> None:
    """What was said, and, as HTML, what is said after the change; None while it is being made."""
    kind = "held" if scene.question.target else "before" if scene.changes else "now"
    lines = [(kind, escape(scene.answer.text))]
    if scene.changes:
        lines.append(("after", "…" if after is None else after))
    spans = "".join(
        f'<span class="tv-quiet">{name}</span><span data-what="{name}">{text}</span>'
        for name, text in lines
    )
    st.html(f'<div class="tv-sentence">{spans}</div>')
