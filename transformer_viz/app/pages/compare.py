"""Page Compare: differences between two sentences, edits, models, or training steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import streamlit as st

from ...core.interventions import Intervention
from ...i18n import join_words, mark, numeral, say
from ..cards import comparison, token_chips
from ..cards.comparison_jobs import Asked, Side, compared
from ..cards.dock import dock
from ..cards.edit_chips import said as said_edit
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..engine.query import Question
from ..labs import snapshots
from ..page_template import show
from ..session import notices, visit, widget_sync
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import OPPOSITES, VERSUS, WEIGHED
from ..session.url_values import quoted
from ..shell.guess_mark import guess_mark
from ..ui import layout
from ..ui.progress import explained, run_with_progress
from ..ui.terms import terms
from ..ui.text_format import changed_words
from .swap import TYPED, variant

QUESTION = mark("What is different, head by head, and on which words?")
WITH = {
    "sentence": mark("another sentence"),
    "edits": mark("the changes made below"),
    "model": mark("another model"),
    "step": mark("two steps of a training"),
}
WEIGHTS = {"raw": mark("as they are"), "content": mark("words only")}
BESIDE = {"place": mark("the same place"), "match": mark("the most alike")}
OTHER, MODEL = "compare-other", "compare-model"  # widget keys
EARLY, LATE = "compare-early", "compare-late"


@dataclass(frozen=True)
class Sides:
    """The two runs to compare, the title of each, and a sentence about their fixed tokens."""

    asked: Asked
    titles: tuple[str, str]
    words: str


def draw(engine: Engine) -> None:
    """Draw the page Compare."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    rows = token_chips.rows_for_stack(scene, scene.kind.stacks[0], -1, "column")
    written = token_chips.sentences(scene, rows, lambda chip: None)
    layout.heading(escape(say(QUESTION)))
    with explained():
        _comparison(scene)
    return written_freely(scene, written, dock(scene, live=False, comparing=False))


def _comparison(scene: Scene) -> None:
    sides = _choices(scene)
    if sides is None:
        return
    engine = scene.engine
    _runs(scene, sides)
    found = run_with_progress(
        lambda task: compared(engine, sides.asked, task),
        key="compared",
        label=say("Running both sides ..."),
        about=sides.asked,
    )
    _mark_others(scene, sides, found.card)
    layout.quiet(escape(comparison.told(found, sides.words)))
    place = comparison.opened(found)
    comparison.atlases(found, place)
    with st.container(border=True, key="card-compared-head"):
        comparison.head(found, place, sides.titles)
    with st.container(border=True, key="card-compared-words"):
        comparison.words(found)
    with st.container(border=True, key="card-matched"):
        comparison.pairs(found)
        comparison.take(found)
    terms("divergence", "bit", "weight", "special token", "teacher forced")


def _mark_others(scene: Scene, sides: Sides, card: dict[str, Any]) -> None:
    """Draw the guesses about a compared model that is not the page's own model."""
    for side, title in zip(("a", "b"), sides.titles, strict=True):
        name = getattr(sides.asked, side).question.model
        if name != scene.question.model:
            guess_mark(card[side], name=name, called=title, key=f"guessed-{side}")


def _choices(scene: Scene) -> Sides | None:
    """Draw the controls; return both sides, or None if an input is missing."""
    with layout.row("bottom", gap="medium", key="compare-choices"):
        st.segmented_control(
            say("compare with"),
            list(VERSUS),
            key="versus",
            format_func=lambda name: say(WITH[name]),
            required=True,
        )
        st.segmented_control(
            say("weights"),
            list(WEIGHED),
            key="weighed",
            format_func=lambda name: say(WEIGHTS[name]),
            help=say(
                "Words only: special tokens are left out and each row is divided by what remains, "
                "since heads that park their weight there are all alike."
            ),
            required=True,
        )
        st.segmented_control(
            say("each head beside"),
            list(OPPOSITES),
            key="opposite",
            format_func=lambda name: say(BESIDE[name]),
            required=True,
        )
    makers: dict[str, Callable[[Scene], Sides | None]] = {
        "sentence": _sentences,
        "edits": _edits,
        "model": _models,
        "step": _steps,
    }
    return makers[state.versus](scene)


def _question(scene: Scene) -> Question:
    return replace(scene.question, masked=()) if state.versus != "edits" else scene.question


def _reads_text(scene: Scene) -> bool:
    """Return True if the model reads one replaceable text; show a message if not."""
    kind = scene.kind
    if (
        kind.takes == "text"
        and kind.spelled
        and not (kind.eyes or (kind.pairs and scene.question.second))
    ):
        return True
    st.info(
        say(
            "This compares what models make of one text, and the model at hand reads something "
            "else. Compare with the changes made below, or choose a model such as en-de."
        )
    )
    return False


def _sentences(scene: Scene) -> Sides | None:
    if not _reads_text(scene):
        return None
    text = scene.question.text
    other = state.other or variant(text, scene.kind.examples)
    widget_sync.show({OTHER: other})
    st.text_input(
        say("the other sentence"), key=OTHER, max_chars=TYPED, on_change=_typed, width=560
    )
    if other == text:
        st.info(say("Both sentences are the same now. Change a word of the other one."))
        return None
    own = _question(scene)
    asked = Asked(Side(own), Side(replace(own, text=other, target="")), "own", state.weighed)
    titles = say("this sentence"), say("the other one")
    return Sides(asked, titles, say("One model, two sentences, each with its own output."))


def _typed() -> None:
    """Store a typed text (callback), unless the browser repeats an overwritten value."""
    text = " ".join(str(st.session_state[OTHER]).split())
    widget_sync.moved(OTHER, lambda: setattr(state, "other", text))


def _edits(scene: Scene) -> Sides | None:
    if not scene.changes:
        st.info(
            say(
                "Nothing is changed. Change a temperature, a mask or a head below: the run with "
                "the change then stands beside the one without."
            )
        )
        return None
    own = _question(scene)
    asked = Asked(Side(own), Side(own, scene.changes.to_json()), "a", state.weighed)
    titles = say("without the changes"), say("with them")
    changes = join_words(said_edit(edit, scene.before) for edit in scene.changes)
    words = say(
        "One model, one sentence, the same output words; changed: {changes}.", changes=changes
    )
    return Sides(asked, titles, words)


def _models(scene: Scene) -> Sides | None:
    engine, here = scene.engine, scene.question.model
    names = [name for name in visit.models(engine) if name != here and _fits(scene, name)]
    if not names:
        st.info(
            say(
                "There is no other model that reads the same; upload one on the page Checkpoint, "
                "and it can be chosen here."
            )
        )
        return None
    if state.beside and state.beside not in names:
        notices.about_link(
            say(
                "There is no model {model} to compare with; {shown} is shown.",
                model=quoted(state.beside),
                shown=names[0],
            )
        )
        state.beside = ""
    other = state.beside or names[0]
    widget_sync.show({MODEL: other})
    st.selectbox(
        say("the other model"),
        names,
        key=MODEL,
        format_func=lambda name: engine.shelf[name].label,
        on_change=_model_chosen,
        help=say("Models that you open on the page Checkpoint stand here too."),
        width=280,
    )
    own = _question(scene)
    asked = Asked(Side(own), Side(replace(own, model=other)), "a", state.weighed)
    titles = engine.shelf[here].label, engine.shelf[other].label
    return Sides(asked, titles, _held(scene, titles[0]))


def _model_chosen() -> None:
    name = str(st.session_state[MODEL])
    widget_sync.moved(MODEL, lambda: setattr(state, "beside", name))


def _fits(scene: Scene, name: str) -> bool:
    """Return True if a model reads the same kind of input, as far as known before loading."""
    kind = scene.engine.kind(name)
    return kind is None or (kind.takes == scene.kind.takes and kind.eyes == scene.kind.eyes)


def _steps(scene: Scene) -> Sides | None:
    if not _reads_text(scene):
        return None
    try:
        moments = {moment.step: moment for moment in snapshots.measured()[1]}
    except OSError:
        st.info(say("The model of the training steps, en-de-small, is not in this box."))
        return None
    steps = sorted(moments)
    chosen = tuple(step for step in state.moments if step in moments)
    if len(chosen) != len(state.moments) or len(chosen) not in (0, 2):
        notices.about_link(
            say(
                "There are no two steps {steps}; {first:,} and {last:,} are shown.",
                steps=repr(",".join(map(str, state.moments))),
                first=steps[0],
                last=steps[-1],
            )
        )
        chosen = state.moments = ()
    early, late = chosen or (steps[0], steps[-1])
    with layout.row("bottom"):
        for key, label, step, some in (
            (EARLY, say("first side, after updates"), early, [s for s in steps if s < late]),
            (LATE, say("second side, after updates"), late, [s for s in steps if s > early]),
        ):
            widget_sync.show({key: step})
            st.selectbox(
                label,
                some,
                key=key,
                format_func=lambda step: numeral(step, ","),
                on_change=_step_chosen,
                args=(key, early, late),
                width=layout.NAME_WIDTH,
            )
    sides = [
        Side(Question(moments[step].name, scene.question.text, beam=1)) for step in (early, late)
    ]
    asked = Asked(sides[0], sides[1], "b", state.weighed)
    titles = say("after {step:,} updates", step=early), say("after {step:,} updates", step=late)
    words = say(
        "Two steps of the training of {model}, one sentence; both hold the words that the later "
        "one writes.",
        model=snapshots.MODEL,
    )
    return Sides(asked, titles, words)


def _step_chosen(key: str, early: int, late: int) -> None:
    step = int(st.session_state[key])
    pair = (step, late) if key == EARLY else (early, step)
    widget_sync.moved(key, lambda: setattr(state, "moments", pair))


def _held(scene: Scene, name: str) -> str:
    if not scene.kind.translates:
        return say("Two models, one input.")
    return say("Two models, one sentence; both hold the words that {model} writes.", model=name)


def _runs(scene: Scene, sides: Sides) -> None:
    """Draw both sides: the text that is read, and the text that is generated."""
    asked, engine = sides.asked, scene.engine
    texts = [side.question.text for side in (asked.a, asked.b)]
    if not texts[0] or not scene.kind.writes:
        return
    changes = [Intervention.from_json(side.edits) for side in (asked.a, asked.b)]
    questions = [side.question for side in (asked.a, asked.b)]
    own, theirs = run_with_progress(
        lambda task: [
            engine.free(question, edits, task)
            for question, edits in zip(questions, changes, strict=True)
        ],
        key="compare-written",
        label=say("Running both sides ..."),
        about=asked,
    )
    read = (escape(texts[0]), changed_words(texts[0], texts[1]))
    written = (escape(own), changed_words(own, theirs))
    for number, column in enumerate(st.columns(2)):
        with column.container(border=True, height="stretch", key=f"card-side-{number}"):
            layout.heading(escape(sides.titles[number]), 3)
            st.html(
                f'<p class="tv-quiet" data-what="reads-{number}">{read[number]}</p>'
                f'<p class="tv-say" data-what="writes-{number}">{written[number]}</p>'
            )
