"""Card of the selected head: its measures, sentences that show its roles, and its switches."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import urlencode

import streamlit as st

from ...core.interventions import Edit, ScaleHead
from ...core.sites import MAPS, Site
from ...i18n import say
from ...metrics.head_measures.evidence import HeadEvidence
from ...metrics.head_measures.registry import MEASURE_BY_NAME
from ...metrics.head_measures.role_examples import SHOWN
from ...views.html.head_table import ROLE_TEXTS, roles_of
from ...views.html.measure_cells import measure_rows
from ...views.html.small_map import small_map
from ..session import changes, visit
from ..session.scene import Scene
from ..ui import layout
from ..ui.progress import run_with_progress
from . import removal, sentences
from .jobs import Item, Removals, SmallMap, maps_of


def card(scene: Scene, found: HeadEvidence, source: str, ranked: Removals | None) -> None:
    """Draw the selected head: roles, switches, all measures, and example sentences."""
    place = scene.place
    site = Site(*MAPS[place.map_name], place.layer, place.head)
    table = found.table
    here = (table["stack"] == site.stack) & (table["block"] == site.block)
    here &= (table["layer"] == site.layer) & (table["head"] == site.head)
    number = int(here.to_numpy().argmax())
    row = table.iloc[number]
    layout.heading(f"{escape(str(site))}: {roles_of(row)}", 3, what="one-head")
    _switches(site, ranked)
    with st.expander(say("all {count} measures of this head", count=len(MEASURE_BY_NAME))):
        st.html(measure_rows(row, list(MEASURE_BY_NAME)))
    for role in row["roles"]:
        _examples(scene, found, source, number, role)
    if not row["roles"]:
        _where_it_looks(scene, source)


def _switches(site: Site, ranked: Removals | None) -> None:
    """Draw toggles that ablate the head, to zero or as in the ranking."""
    at = {"stack": site.stack, "block": site.block, "layer": site.layer, "head": site.head}
    off = ScaleHead(value=0, **at)  # type: ignore[arg-type]
    same = None if ranked is None else removal.as_ranked(site, ranked)
    with layout.row("center"):
        _switch("heads-off", say("switch it off"), off)
        if same is not None and same != off:
            _switch("heads-as-ranked", say("remove it as in the ranking"), same)
    if ranked is not None:
        layout.quiet(escape(removal.said_of_switch(same, off)))


def _switch(key: str, label: str, edit: Edit) -> None:
    on = edit in changes.intervention().edits
    st.button(say("switch it on again") if on else label, key=key, on_click=_toggle, args=(edit,))


def _toggle(edit: Edit) -> None:
    """Add an edit, or remove it if it is already set (callback)."""
    now = changes.intervention()
    edits = (*now.edits, edit)
    changes.change(now.without(edit) if edit in now.edits else type(now)(edits))


def _examples(scene: Scene, found: HeadEvidence, source: str, number: int, role: str) -> None:
    """Draw the sentences that show a role best, and some typical ones."""
    layout.heading(escape(say("{role}: where it shows", role=say(ROLE_TEXTS[role]))), 3)
    best, typical = found.examples.get((number, role), ((), ()))
    if not best:
        layout.quiet(escape(say("No sentence has three rows or more that could be asked.")))
        return
    items = sentences.asked(scene, source)
    chosen = tuple(items[one] for one in (*best, *typical))
    titles = [say("most")] * len(best) + [say("typically")] * len(typical)
    _draw(scene, chosen, titles, role)


def _where_it_looks(scene: Scene, source: str) -> None:
    """Draw a head without a role on the first sentences, unselected."""
    layout.heading(escape(say("no role found: where it looks in the first sentences")), 3)
    chosen = sentences.asked(scene, source)[:SHOWN]
    _draw(scene, chosen, [f"{number}" for number in range(1, len(chosen) + 1)], "none")


def _draw(scene: Scene, chosen: Sequence[Item], titles: Sequence[str], role: str) -> None:
    maps = _maps(scene, chosen, role)
    drawn = (_example(scene, *one, role) for one in zip(chosen, maps, titles, strict=True))
    st.html(f'<div class="tv-examples">{"".join(drawn)}</div>')


def _maps(scene: Scene, chosen: Sequence[Item], role: str) -> Sequence[SmallMap]:
    place = scene.place
    words = (tuple(chosen), place.map_name, place.layer, place.head)
    found: Sequence[SmallMap] = run_with_progress(
        lambda task: scene.engine.ask(
            scene.question.model, maps_of, *words, task=task, stepped=True
        ),
        key=f"heads-maps-{role}",
        label=say("Running the sentences that show it ..."),
        about=words,
    )
    return found


def _example(scene: Scene, item: Item, one: SmallMap, title: str, role: str) -> str:
    """Return a sentence and the head's map of it as HTML; the sentence links to Explore."""
    place = scene.place
    text = str(item if isinstance(item, str) else item[0])
    link = {
        key: value
        for key, value in st.query_params.to_dict().items()
        if key not in ("target", "edits")
    }
    there = {"text": text, "block": place.map_name, "layer": place.layer, "head": place.head}
    href = escape(f"./?{urlencode(link | there)}")
    picture = small_map(one.weights, one.rows, one.columns, dark=visit.dark())
    return (
        f'<div><p class="tv-say" data-what="example-{role}"><span class="tv-quiet">{escape(title)}'
        f'</span> <a href="{href}" target="_self">{escape(text)}</a></p>{picture}</div>'
    )
