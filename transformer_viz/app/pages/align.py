"""Page Align: word alignment of source and translation from cross-attention."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.alignment.aligning import Alignment, align
from ...metrics.alignment.judging import Place
from ..cards import alignment, token_chips
from ..cards.dock import dock
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..engine.query import whole_maps
from ..engine.task import Task
from ..page_template import show
from ..session import notices
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout
from ..ui.progress import explained, run_with_progress
from ..ui.terms import terms

QUESTION = mark("Which word of the source does each word of the translation look at?")
ROWS = {"out": mark("row that writes the word"), "in": mark("row that reads it")}


def draw(engine: Engine) -> None:
    """Draw the page Align."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    rows = token_chips.rows_for_stack(scene, scene.kind.stacks[0], -1, "column")
    written = token_chips.sentences(scene, rows, lambda chip: None)
    layout.heading(escape(say(QUESTION)))
    refused = _lacks(scene)
    if refused:
        st.info(refused)
    else:
        with explained():
            _aligned(scene)
    return written_freely(scene, written, dock(scene, live=False, comparing=False))


def _lacks(scene: Scene) -> str | None:
    """Return a reason if the model has no alignment, with an alternative; else None."""
    if "cross" not in scene.before.maps:
        return say(
            "An alignment joins the words of two sentences by cross-attention, and the model at "
            "hand has none. Choose one that translates, such as en-de; Heads and Explore say what "
            "these heads do."
        )
    if not scene.before.source.ids:
        return say(
            "An alignment joins words, and what this model reads has none (a picture, a sound or "
            "vectors). Choose one that translates a text, such as en-de; Explore shows where these "
            "heads look."
        )
    return None


def _aligned(scene: Scene) -> None:
    layer, head = _choices(scene)
    clean, now = _runs(scene)
    row = state.aligned_row
    before = align(clean, row, layer=layer, head=head)
    found = before if now is clean else align(now, row, layer=layer, head=head)
    with st.container(border=True, key="card-links"):
        alignment.drawing(now, found)
        _said(found, before)
    with st.container(key="pictures-align"):
        left, right = st.columns(2)
        with left.container(border=True, height="stretch", key="card-walk"):
            alignment.walk(found)
        with right.container(border=True, height="stretch", key="card-gold"):
            alignment.judged_by_gold(now, found)
    with st.container(border=True, key="card-pharaoh"):
        alignment.take(found)
    terms("alignment", "gold", "cross-attention", "weight", "source", "target")


def _choices(scene: Scene) -> Place:
    """Draw the controls; return the layer and head to read."""
    layers, heads = scene.before.thumbnail("cross").shape[:2]
    names = ["", *(n for layer in range(layers) for n in _names(layer, heads))]
    if state.aligned not in names:
        notices.about_link(
            say(
                "There is no cross-attention {name} here; the mean of all heads is read.",
                name=alignment.called(state.aligned),
            )
        )
        state.aligned = ""
    with layout.row("bottom", gap="medium", key="align-choices"):
        st.selectbox(
            say("cross-attention of"),
            names,
            key="aligned",
            format_func=alignment.called,
            width=layout.NAME_WIDTH,
        )
        st.segmented_control(
            say("read from the"),
            list(ROWS),
            key="aligned_row",
            format_func=lambda row: say(ROWS[row]),
            required=True,
        )
    layout.quiet(
        escape(
            say(
                "A row of the decoder reads one word and writes the next. Which of the two rows "
                "of a word looks at its translation depends on the layer (Kobayashi et al. 2020, "
                "Chen et al. 2020); try both."
            )
        )
    )
    return alignment.place_of(state.aligned)


def _names(layer: int, heads: int) -> list[str]:
    return [f"{layer}", *(f"{layer}.{head}" for head in range(heads))]


def _runs(scene: Scene) -> tuple[Trace, Trace]:
    """Return the clean and the changed run, with all heads of cross-attention."""
    detail = whole_maps(scene.before, "cross")

    def both(task: Task) -> tuple[Trace, Trace]:
        answer = scene.engine.clean(scene.question, detail, task)
        if not scene.changes:
            return answer.trace, answer.trace
        changed = scene.engine.changed(scene.question, answer, scene.changes, detail, task)
        return answer.trace, changed

    found: tuple[Trace, Trace] = run_with_progress(
        both,
        key="align-runs",
        label=say("Running the model ..."),
        about=(scene.question, scene.changes.to_json()),
    )
    return found


def _said(found: Alignment, before: Alignment) -> None:
    """Draw the unaligned words, the effect of the edits, and the limits of the picture."""
    told = [alignment.unread(found)]
    if found is not before:
        others = len(found.pairs ^ before.pairs)
        told.append(
            say(
                "With the changes below; {count} links came or went by them.",
                count=others,
            )
        )
    told.append(
        say(
            "A word without a link looks most at the end mark or at two words alike. A link says "
            "where the model looked, not that one word is the translation of the other."
        )
    )
    st.html(f'<p class="tv-say" data-what="unread">{escape(told[0])}</p>')
    layout.quiet(escape(" ".join(told[1:])))
