"""Heads of an atlas: all of a block by one measure, their rows, one head's sentences."""

from __future__ import annotations

from functools import lru_cache
from html import escape
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import streamlit as st

from ... import views
from ...core.sites import MAPS, Site
from ...corpus.folder import AtlasFolder, HeadExample
from ...i18n import mark, say
from ...metrics.head_measures.registry import MEASURE_BY_NAME, MEASURES
from ...metrics.head_measures.role_rules import roles
from ...views.html.head_table import head_table, roles_of
from ...views.html.measure_cells import measure_rows
from ...views.html.small_map import small_map
from ..cards.downloads import table_files
from ..cards.plotly_chart import chart, clicked
from ..engine.engine import Engine
from ..heads.table import sorted_heads
from ..session import visit, widget_sync
from ..session.state import state
from ..session.url_state import FIRST_MEASURE
from ..ui import layout

ABREAST = 3  # maps per row
BLOCK_TEXTS = {
    "encoder": mark("encoder"),
    "decoder": mark("decoder"),
    "cross": mark("cross-attention"),
}
BEGINS = "\u2581"  # word-start marker of SentencePiece
KINDS = {"top": mark("most"), "typical": mark("typically")}


@lru_cache(maxsize=4)
def told(atlas: AtlasFolder) -> pd.DataFrame:
    """Return the table with roles and states; cached until the atlas is read again."""
    return roles(atlas.table)


def blocks(atlas: AtlasFolder) -> list[str]:
    """Return the maps that the atlas has, by their names in the app."""
    there = {head[:2] for head in atlas.heads}
    return [name for name, place in MAPS.items() if place in there]


def place_of(atlas: AtlasFolder) -> Site:
    """Return the selected head, or the first of its block or of the atlas if it is missing."""
    names = blocks(atlas)
    name = state.block if state.block in names else names[0]
    wanted = Site(*MAPS[name], state.layer, state.head)
    own = [Site(*head) for head in atlas.heads if head[:2] == MAPS[name]]
    return wanted if wanted in own else own[0]


def card(atlas: AtlasFolder, engine: Engine) -> None:
    """Draw the whole atlas."""
    place = place_of(atlas)
    table = told(atlas)
    own = table[(table["stack"] == place.stack) & (table["block"] == place.block)]
    _ask_what_can_be_asked(own)
    _choices(atlas, place)
    with st.container(key="pictures-corpus"):
        left, right = st.columns((5, 9))
        with left.container(border=True, height="stretch", key="card-grid"):
            _grid(table, own, place)
        with right.container(border=True, height="stretch", key="card-rows"):
            _rows(own, place)
    with st.container(border=True, key="card-corpus-head"):
        _one(atlas, table, place, engine)
    with st.container(border=True, key="card-corpus-card"):
        _take(atlas, table)


def _ask_what_can_be_asked(own: pd.DataFrame) -> None:
    """Replace the default measure if no head of this block has it.

    Cross-attention has no previous token, so the default would show only dashes.
    """
    asked = [measure.name for measure in MEASURES if own[measure.name].notna().any()]
    if state.corpus_by == FIRST_MEASURE and asked and FIRST_MEASURE not in asked:
        state.corpus_by = asked[0]


def _choices(atlas: AtlasFolder, place: Site) -> None:
    names = blocks(atlas)
    st.session_state["corpus-block"] = place.map
    with layout.row("bottom", gap="medium", key="corpus-choices"):
        st.selectbox(
            say("measure"),
            [measure.name for measure in MEASURES],
            key="corpus_by",
            format_func=lambda name: say(MEASURE_BY_NAME[name].title),
            width=layout.NAME_WIDTH,
        )
        if len(names) > 1:
            st.segmented_control(
                say("heads of the"),
                names,
                key="corpus-block",
                format_func=lambda name: say(BLOCK_TEXTS[name]),
                on_change=_block,
                required=True,
            )
        own = [head[2:] for head in atlas.heads if head[:2] == MAPS[place.map]]
        st.session_state["corpus-head"] = (place.layer, place.head)
        st.selectbox(
            say("head"),
            own,
            key="corpus-head",
            format_func=lambda one: f"L{one[0]} H{one[1]}",
            on_change=_head,
            width=layout.NAME_WIDTH,
        )
    layout.quiet(escape(say(MEASURE_BY_NAME[state.corpus_by].question)))


def _head() -> None:
    _choose(*st.session_state["corpus-head"])


def _block() -> None:
    widget_sync.choose(block=st.session_state["corpus-block"])


def _grid(table: pd.DataFrame, own: pd.DataFrame, place: Site) -> None:
    by = state.corpus_by
    size = int(own["layer"].max()) + 1, int(own["head"].max()) + 1
    values = np.full(size, np.nan)
    values[own["layer"].to_numpy(int), own["head"].to_numpy(int)] = own[by].to_numpy(float)
    every = np.abs(table[by].to_numpy(float))
    whole = float(np.nanmax(every)) if np.isfinite(every).any() else 1.0
    assert place.head is not None
    chart(
        "corpus-grid",
        escape(say(MEASURE_BY_NAME[by].title)),
        lambda: views.measure_grid(
            values, whole, chosen=(place.layer, place.head or 0), dark=visit.dark()
        ),
        _picked,
    )


def _picked() -> None:
    found = clicked("corpus-grid")
    if len(found) >= 2:
        _choose(found[0], found[1])


def _choose(layer: int, head: int) -> None:
    """Select a head of the shown block (callback); the link may name another block."""
    widget_sync.choose(block=st.session_state["corpus-block"], layer=layer, head=head)


def _rows(own: pd.DataFrame, place: Site) -> None:
    """Draw the heads of the block, largest first."""
    by = state.corpus_by
    ordered = sorted_heads(own, by, {})
    st.html(head_table(ordered, [by], opened=place))
    layout.quiet(
        say(
            "Bar: the value, with its 95 % line; orange: chance. Press a number for these in "
            "figures and the rows asked."
        )
    )


def _one(atlas: AtlasFolder, table: pd.DataFrame, place: Site, engine: Engine) -> None:
    """Draw the chosen head: roles, measures, histogram over sentences, and example sentences."""
    head = (place.stack, place.block, place.layer, place.head or 0)
    row = table.iloc[atlas.heads.index(head)]
    by = state.corpus_by
    name = say(MEASURE_BY_NAME[by].title)
    layout.heading(f"{escape(str(place))}: {roles_of(row)}", 3, what="corpus-head")
    with st.expander(say("all {count} measures of this head", count=len(MEASURE_BY_NAME))):
        st.html(measure_rows(row, list(MEASURE_BY_NAME), "corpus-measures"))
    counts, edges = atlas.histogram(head, by)
    if counts.sum():
        chart(
            "corpus-counts",
            escape(say("{measure}, sentence by sentence", measure=name)),
            lambda: views.sentence_counts(
                counts,
                edges,
                mean=float(row[by]),
                chance=float(row[f"{by}_chance"]),
                dark=visit.dark(),
            ),
        )
    else:
        layout.quiet(escape(say("No sentence has a row that could be asked.")))
    _examples(atlas, atlas.examples(head, by), place, engine)


def _examples(atlas: AtlasFolder, found: list[HeadExample], place: Site, engine: Engine) -> None:
    layout.heading(escape(say("Its sentences: the best three, then typical ones")), 3)
    if not found:
        layout.quiet(
            escape(
                say(
                    "No sentence of 6 to 40 tokens is kept for this head and measure; another "
                    "measure may have some."
                )
            )
        )
        return
    model, note = _model(atlas, engine)
    if note:
        layout.quiet(escape(note))
    for first in range(0, len(found), ABREAST):
        with st.container(key=f"pictures-corpus-examples-{first}"):
            for column, one in zip(st.columns(ABREAST), found[first:], strict=False):
                with column:
                    _example(one, place, model)


def own_model(atlas: AtlasFolder, engine: Engine) -> str | None:
    """Return the name of the atlas's model on this server, or None."""
    plan = atlas.plan
    for name in dict.fromkeys((plan.model, state.model)):
        shelved = engine.shelf.get(name)
        if shelved is not None and shelved.hash == plan.model_hash:
            return name
    return None


def _model(atlas: AtlasFolder, engine: Engine) -> tuple[str, str]:
    """Return the model that opens a sentence, and a note if it is not the atlas's own."""
    own, plan = own_model(atlas, engine), atlas.plan
    if own is not None:
        return own, ""
    return state.model, say(
        "The model of this atlas, {name} with the weights {hash}, is not among those here; a "
        "sentence opens with the model at hand.",
        name=plan.model,
        hash=plan.model_hash[:12],
    )


def _example(one: HeadExample, place: Site, model: str) -> None:
    """Draw a sentence and the head's map of it; the sentence links to Explore."""
    left_out = ("edits", "target")
    link = {k: v for k, v in st.query_params.to_dict().items() if k not in left_out}
    there = {"model": model, "text": one.text, "block": place.map, "layer": place.layer}
    there |= {"head": place.head} | ({"target": one.target} if one.target else {})
    href = escape(f"./?{urlencode(link | there)}")
    title = f"{say(KINDS[one.kind])}, {one.score:.2f}"
    picture = small_map(one.weights, _plain(one.query), _plain(one.key), dark=visit.dark())
    target = f'<br><span class="tv-quiet">{escape(one.target)}</span>' if one.target else ""
    st.html(
        f'<p class="tv-say" data-what="corpus-{one.kind}"><span class="tv-quiet">{escape(title)}'
        f'</span><br>{escape(one.text)}{target}<br><a href="{href}" target="_self">'
        f"{escape(say('open in Explore'))}</a></p>{picture}"
    )


def _plain(pieces: tuple[str, ...]) -> list[str]:
    """Return pieces without the word-start marker."""
    return [piece.removeprefix(BEGINS) or piece for piece in pieces]


def _take(atlas: AtlasFolder, table: pd.DataFrame) -> None:
    """Draw all numbers as a download, and the card of the measurement."""
    plain = table.assign(roles=table["roles"].map(", ".join), states=table["states"].map(", ".join))
    with layout.row("center"):
        table_files(plain, atlas.card, "corpus")
    panel = layout.unfolding(say("what was measured"), "corpus-card")
    if panel is not None:
        with panel:
            lines = {key: str(value) for key, value in atlas.card.items()}
            st.table(pd.DataFrame({"": list(lines.values())}, index=list(lines)))
