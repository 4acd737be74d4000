"""Page Norms: input and output statistics of each layer norm."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import pandas as pd
import streamlit as st

from ... import views
from ...core.trace import Trace
from ...i18n import ENGLISH, mark, say, speaking
from ...metrics.residual.norm_labels import norm_labels
from ...metrics.residual.norm_statistics import (
    STATISTICS,
    describe_norm_change,
    norm_sites,
    norm_statistic,
    norm_table,
)
from ...metrics.residual.outliers import (
    outstanding_dimensions,
    outstanding_gains,
    outstanding_tokens,
)
from ...views.csv_text import csv_text
from ..cards import token_chips
from ..cards.dock import dock
from ..cards.downloads import text_file
from ..cards.overview import sentence
from ..cards.plotly_chart import chart, clicked
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..page_template import show
from ..session import notices, selection, visit, widget_sync
from ..session.scene import Scene
from ..session.state import state
from ..session.url_values import quoted
from ..ui import layout
from ..ui.text_format import escape_markdown, spoken

QUESTION = mark("What does each layer norm see, and what does it make of it?")
NAMES = {statistic.name: statistic for statistic in STATISTICS}


def draw(engine: Engine) -> None:
    """Draw the page Norms."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    stack = state.stack
    notices.clamp_index("word", len(scene.now.words_of(stack)), mark("word"))
    notices.rewrite_widget("word")
    selection.follow_word(scene)
    rows = token_chips.rows_for_stack(scene, stack, state.word, "column")
    sides = token_chips.sides_of(scene, stack, "column")
    written = token_chips.sentences(
        scene, rows, lambda chip: widget_sync.choose(word=chip.token), "norm-map", sides
    )
    _choices(scene)
    try:
        sites = norm_sites(scene.before, stack)
    except LookupError as error:
        st.info(escape_markdown(spoken(error)))
        return written_freely(scene, written, dock(scene, live=False, comparing=False))
    _clamp_site(sites)
    with st.container(key="pictures-norms"):
        left, right = st.columns(layout.WIDER_LEFT)
        with left.container(border=True, height="stretch", key="card-norms"):
            _map(scene, stack, sites)
        with right.container(border=True, height="stretch", key="card-stream"):
            _stream(scene, stack)
    with st.container(key="pictures-gains"):
        left, right = st.columns(layout.WIDER_LEFT)
        with left.container(border=True, height="stretch", key="card-gains"):
            _gains(scene)
        with right.container(border=True, height="stretch", key="card-outstanding"):
            _outstanding(scene, stack)
    _changes(scene, stack)
    _table(scene, stack)
    return written_freely(scene, written, dock(scene, live=False))


def _choices(scene: Scene) -> None:
    with layout.row("center", spread=True):
        layout.heading(say(QUESTION), fit=True)
        sentence(scene)


def _clamp_site(sites: tuple[str, ...]) -> None:
    """Select a norm that this stack has; report an unknown one of the link."""
    if state.site not in sites:
        if state.site:
            notices.about_link(
                say(
                    "There is no norm {norm} in this stack; {shown} is shown.",
                    norm=quoted(state.site),
                    shown=sites[0],
                )
            )
        state.site = sites[0]


def _map(scene: Scene, stack: str, sites: tuple[str, ...]) -> None:
    now, before = scene.shown
    name = state.statistic
    chart(
        "norm-map",
        scene.kind.asked(NAMES[name].question),
        lambda: views.norm_map(
            now,
            name,
            stack,
            before=before,
            site=sites.index(state.site),
            token=state.word,
            dark=visit.dark(),
        ),
        lambda: _pick(sites),
    )
    with layout.row("bottom"):
        st.selectbox(
            say("number"), list(NAMES), key="statistic", format_func=_title, width=layout.NAME_WIDTH
        )
        labels = dict(zip(sites, norm_labels(scene.before, sites), strict=True))
        st.selectbox(
            say("norm"), list(sites), key="site", format_func=labels.__getitem__, width=280
        )
    _said(scene, stack)


def _title(name: str) -> str:
    return say(NAMES[name].title)


def _pick(sites: tuple[str, ...]) -> None:
    chosen = clicked("norm-map")
    if chosen:
        widget_sync.choose(site=sites[chosen[0]], word=chosen[1])


def _said(scene: Scene, stack: str) -> None:
    """Draw the chosen cell as a number, before and after an edit, and its meaning."""
    told = []
    for trace in (scene.before, scene.now) if scene.changes else (scene.before,):
        sites, values = norm_statistic(trace, state.statistic, stack)
        row, token = sites.index(state.site), state.word
        told.append(f"{values[row, token]:.4f}" if token < values.shape[1] else "–")
    statistic, word = NAMES[state.statistic], _labels(scene.now, stack)[state.word]
    said = say(
        "“{word}”: {title} {numbers}",
        word=word,
        title=say(statistic.title),
        numbers=" → ".join(told),
    )
    st.html(
        f'<p class="tv-say" data-what="norm">{escape(said)}</p>'
        f'<span class="tv-quiet">{escape(say(statistic.sentence))}</span>'
    )


def _labels(trace: Trace, stack: str) -> tuple[str, ...]:
    return trace.words_of(stack).labels


def _stream(scene: Scene, stack: str) -> None:
    now, _ = scene.shown
    before = scene.before if now is not scene.before else None
    labels = _labels(now, stack)
    token = min(state.word, len(labels) - 1)
    chart(
        "stream",
        scene.kind.asked(mark("How long is a word's vector on its way through the layers?")),
        lambda: views.stream_length(now, stack, token, before=before, dark=visit.dark()),
        _pick_word,
    )
    every = _labels(scene.now, stack)
    st.selectbox(
        say("word"),
        range(len(every)),
        key="word",
        format_func=lambda place: f"{place} {every[place]}",
        width=layout.POSITION_WIDTH,
    )


def _pick_word() -> None:
    chosen = clicked("stream")
    if chosen:
        widget_sync.choose(word=chosen[0])


def _gains(scene: Scene) -> None:
    site = state.site
    chart(
        "gains",
        say("What has this norm learned to stretch and to shift?"),
        lambda: views.gain_bias(scene.before, site, dark=visit.dark()),
    )


def _outstanding(scene: Scene, stack: str) -> None:
    """Draw the outliers among words, dimensions and gains."""
    now, _ = scene.shown
    site = state.site
    layout.heading(say("What stands out?"), 3)
    _found(say("Words"), lambda: outstanding_tokens(now, stack, count=4))
    stream = say("Dimensions of the residual stream")
    _found(stream, lambda: outstanding_dimensions(now, stack, count=4))
    _found(say("Gains of the chosen norm"), lambda: outstanding_gains(now, site, count=4))


def _found(title: str, find: Callable[[], pd.DataFrame]) -> None:
    try:
        sentences = list(find()["sentence"]) or [say("none stands out")]
    except (ValueError, LookupError) as error:
        sentences = [spoken(error)]
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    st.html(f'<div class="tv-found"><b>{title}</b><ul>{items}</ul></div>')


def _changes(scene: Scene, stack: str) -> None:
    """Draw a sentence on the effect of the current edits on the norms."""
    with st.container(border=True, key="card-changes"):
        layout.heading(say("What did the changes do here?"))
        if scene.changes:
            try:
                said = describe_norm_change(scene.before, scene.now, state.statistic, stack)
            except ValueError as error:
                said = spoken(error)
            st.html(f'<p class="tv-say" data-what="change">{escape(said)}</p>')
        else:
            st.caption(
                say(
                    "Change masks, temperature or heads below, or positions on the page Positions: "
                    "before, after and difference then stand here."
                )
            )


def _table(scene: Scene, stack: str) -> None:
    """Draw all numbers, and their download."""
    with speaking(ENGLISH):  # data files do not depend on the language
        table = numbers(scene, stack)
    with st.container(border=True, key="card-table"):
        with layout.row("center", spread=True):
            layout.heading(say("All numbers"), fit=True)
            text_file(
                "CSV", csv_text(table, scene.now.manifest), f"norms-{stack}.csv", key="norm-csv"
            )
        st.dataframe(table, hide_index=True, key="norm-table", height=280)


def numbers(scene: Scene, stack: str) -> pd.DataFrame:
    """Return a stack's norms, one row per norm and token; changed runs include the clean values."""
    table = norm_table(scene.now, stack)
    if not scene.changes:
        return table
    before = norm_table(scene.before, stack).drop(columns=["place", "word"])
    return table.merge(before, on=["site", "token"], how="left", suffixes=("", "_clean"))
