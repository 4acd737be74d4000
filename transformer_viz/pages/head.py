"""The opened head: its map, the chosen row in words, and its numbers."""

from __future__ import annotations

from html import escape
from typing import Any

import streamlit as st

from ..metrics import describe_row, statistic_change
from ..views import head_map
from ..views.cells import Cells, cells
from ..views.theme import palette
from . import visit
from .charts import STILL, clicked
from .scene import Scene
from .words import plain

CHART = "head-map"
ROWS = "rows look at columns"


def cells_of(scene: Scene) -> Cells:
    """The cells of the opened head in the run that is shown."""
    state, place = st.session_state, scene.place
    now, _ = scene.shown
    return cells(
        now,
        place.block,
        place.layer,
        place.head,
        words=state["words"],
        special=state["special"],
    )


def settle_row(found: Cells) -> None:
    """Let the chosen row be the first token of a row that is shown."""
    state = st.session_state
    row = found.row_of(state["token"])
    if row is None:
        visit.fit("token", 1 + max(map(max, found.members)), "word")
        row = found.row_of(state["token"]) or 0
    state["token"] = found.members[row][0]


def opened(scene: Scene, found: Cells) -> None:
    """The card of the opened head."""
    place = scene.place
    rows = "rows say their word and look at columns" if scene.kind.continues else ROWS
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    ):
        st.html(
            f'<h2 class="tv-question">{place.site.label} '
            f'<span class="tv-quiet">{place.block} · {rows}</span></h2>',
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
    said = _row(found, found.row_of(st.session_state["token"]) or 0)
    st.plotly_chart(
        _picture(scene),
        key=CHART,
        theme=None,
        config=STILL,
        on_select=_pick_row,
        selection_mode="points",
        alt=said,
    )
    _below(scene, found, said)


def _picture(scene: Scene) -> Any:
    state, place = st.session_state, scene.place
    now, before = scene.shown
    return head_map(
        now,
        place.block,
        place.layer,
        place.head,
        before=before,
        most=scene.most,
        token=state["token"],
        words=state["words"],
        special=state["special"],
        dark=visit.dark(),
    )


def _pick_row() -> None:
    chosen = clicked(CHART)
    if chosen:
        st.session_state["token"] = chosen[0]


def _row(found: Cells, row: int) -> str:
    return describe_row(found.weights[row], found.rows.labels[row], found.columns.labels)


def _below(scene: Scene, found: Cells, said: str) -> None:
    """The row in words, the head's numbers, the colour scale, and what to be careful about."""
    difference = scene.shown[1] is not None
    ends = ("less", "more") if difference else ("0", f"{scene.most:.2f}")
    colours = palette(visit.dark())
    ramp = colours.changes if difference else colours.amounts
    legend = (
        f'{ends[0]} <span class="tv-legend" style="background:linear-gradient(90deg,'
        f'{",".join(ramp)})"></span> {ends[1]}'
    )
    hatched = " · hatched: masked" if found.masked.any() else ""
    own = " (of the model's own pieces)" if found.note else ""
    st.html(
        f'<p class="tv-say" data-what="row">{escape(said)}</p>'
        f'<span class="tv-quiet" data-what="numbers">{numbers(scene)}{own} · {legend}{hatched}'
        "</span>"
    )
    if found.note:
        st.caption(found.note)
    if found.blind:
        blind = plain(", ".join(found.blind))
        st.caption(f"Nothing is left to look at for {blind}: these rows are zero.")


def numbers(scene: Scene) -> str:
    """The head's entropy and mean distance, before and after a change."""
    site = scene.place.site
    told = []
    for name, unit in (("entropy", "bits"), ("distance", "tokens")):
        was, now = statistic_change(scene.before, scene.now, site, name)
        spread = f"{was:.2f} → {now:.2f}" if scene.changes else f"{was:.2f}"
        told.append(f"{spread} {unit}")
    return (
        f"entropy {told[0]} · "
        f'<span title="the mean of |row − column| over all weights">mean distance</span> {told[1]}'
    )
