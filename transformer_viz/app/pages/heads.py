"""Page Heads: the function of each head, and the effect of its removal."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from ...checkpoints.common.bundled import HEADS
from ...core.numerics import LOGIT
from ...i18n import mark, numeral, say
from ...metrics.head_measures.evidence import HeadEvidence
from ...views.html.head_table import costs_of
from ..cards import overview, token_chips
from ..cards.dock import dock
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..heads import one_head, removal, sentences, table, upload, verdict
from ..heads.jobs import Item, measured
from ..page_template import show
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import HEADS_BY
from ..ui import layout
from ..ui.progress import explained, run_with_progress
from ..ui.terms import terms

QUESTION = mark("What is each head for, and what happens without it?")
Later = Callable[[], None] | None


def draw(engine: Engine) -> None:
    """Draw the page Heads."""
    show(engine, _body)


def _body(scene: Scene) -> Later:
    rows = token_chips.rows_for_stack(scene, scene.kind.stacks[0], -1, "column")
    written = token_chips.sentences(scene, rows, lambda chip: None)
    layout.heading(escape(say(QUESTION)))
    sharpen: Later = None
    if scene.kind.takes != "text" or scene.kind.eyes:
        st.info(
            say(
                "Heads are measured on sentences here, and the model at hand reads something else. "
                "Choose a model that reads one text, such as en-de; Explore shows its heads."
            )
        )
    else:
        with explained():
            sharpen = _measured(scene)
    return _both(written_freely(scene, written, dock(scene, live=False, comparing=False)), sharpen)


def _both(first: Later, second: Later) -> Later:
    """Return a function that calls both steps after the page is drawn."""
    steps = [step for step in (first, second) if step is not None]
    if not steps:
        return None

    def later() -> None:
        for step in steps:
            step()

    return later


def _measured(scene: Scene) -> Later:
    source = _choices(scene)
    if source is None:
        return None
    if sentences.broken(scene):
        st.info(
            say(
                "The measures that stand beside this model cannot be read ({file}). Fetch the file "
                "again; until then the heads are measured here.",
                file=HEADS,
            )
        )
    found = _evidence(scene, source)
    stored = sentences.stored(scene) if source == "stored" else None
    layout.quiet(escape(_told(found, source, stored)))
    ranked, refused = removal.known(scene, source, stored)
    costs = {} if ranked is None else costs_of(ranked.table)
    if ranked is not None:
        verdict.verdict(ranked)
    with st.container(key="pictures-heads"):
        left, right = st.columns((5, 9))
        with left.container(border=True, height="stretch", key="card-overview"):
            overview.block(scene)
            table.tiles(scene, found, costs)
        with right.container(border=True, height="stretch", key="card-heads"):
            table.rows(scene, found, costs)
    with st.container(border=True, key="card-one-head"):
        one_head.card(scene, found, source, ranked)
    with st.container(border=True, key="card-removal"):
        sharpen = removal.card(scene, source, stored, ranked, refused, found)
    nat = () if scene.kind.unit == LOGIT else ("nat",)
    terms("head", "role", "chance", "interval", "removal", *nat, "teacher forced", "entropy")
    return sharpen


def _choices(scene: Scene) -> str | None:
    """Draw the controls; return the source of sentences, or None if its file is missing."""
    with layout.row("bottom", gap="medium", key="heads-choices"):
        st.segmented_control(
            say("sentences"),
            sentences.available(scene),
            key="heads_on",
            format_func=lambda name: say(sentences.SOURCES[name]),
            required=True,
        )
        st.selectbox(
            say("sort by"),
            HEADS_BY,
            key="heads_by",
            format_func=table.order_name,
            width=layout.NAME_WIDTH,
        )
    if state.heads_on == "file" and not upload.file():
        return None
    return sentences.chosen(scene)


def _evidence(scene: Scene, source: str) -> HeadEvidence:
    stored = sentences.stored(scene) if source == "stored" else None
    if stored is not None:
        return stored.evidence
    items: tuple[Item, ...] = sentences.asked(scene, source)
    found: HeadEvidence = run_with_progress(
        lambda task: scene.engine.ask(
            scene.question.model, measured, items, task=task, stepped=True
        ),
        key="heads-measured",
        label=say("Measuring every head ..."),
        about=(scene.question.model, items),
    )
    return found


def _told(found: HeadEvidence, source: str, stored: sentences.Stored | None) -> str:
    """Return the description of the measurement, its data and its limits."""
    alone = found.card["sentences"] == 1
    told = [
        say(
            "One sentence, up to {rows} rows a head; weights on words, special tokens left out.",
            rows=found.card["rows"],
        )
        if alone
        else say(
            "{sentences} sentences, up to {rows} rows a head; weights on words, special tokens "
            "left out.",
            sentences=found.card["sentences"],
            rows=numeral(found.card["rows"], ","),
        )
    ]
    if alone:
        told.append(
            say("One sentence has no interval, and a role of one sentence is a hint; more tell.")
        )
    if source == "stored":
        told.append(say("Held-out sentences of Tatoeba (CC BY 2.0)."))
    if stored is not None:
        told.append(
            say(
                "Removal: the head gives its mean instead, on the first {count}.",
                count=stored.ranking["card"]["sentences"],
            )
        )
    told.append(say("Where a head looks is not yet what it is worth. Changes are not in it."))
    if source == "stored":  # not true for one sentence or for an uploaded model
        told.append(
            say(
                "Station 5 names the head whose map looks most like a habit in one sentence, the "
                "lab “Who is “it”?” those that one pronoun needs, and this page those that many "
                "sentences need: they may be different heads, and each is right about its own "
                "question."
            )
        )
    return " ".join(told)
