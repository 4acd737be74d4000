"""Heads of the page Heads as tiles and as rows, in the same order and with the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import streamlit as st

from ...components.atlas import HeadNumber
from ...core.sites import MAPS, Site
from ...i18n import say
from ...metrics.head_measures.evidence import HeadEvidence
from ...metrics.head_measures.registry import MEASURE_BY_NAME
from ...views.html.head_table import ROLE_TEXTS, Cost, Section, head_table
from ..cards import head_card, overview
from ..cards.downloads import table_files
from ..render import payloads
from ..session import widget_sync
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import HEADS_BY
from ..ui import layout

HEAD = ["stack", "block", "layer", "head"]
#: Fixed columns; the sort column is added.
SHOWN = {"cross": ("diagonality", "coverage", "entropy"), "self": ("previous", "self", "entropy")}
Costs = Mapping[Site, Cost]


def order_name(name: str) -> str:
    """Return the title of a sort order."""
    names = {"layer": say("layer"), "role": say("role"), "effect": say("what its removal costs")}
    return names.get(name) or say(MEASURE_BY_NAME[name].title)


def tiles(scene: Scene, found: HeadEvidence, costs: Costs) -> None:
    """Draw the heads of the chosen block as tiles, in the table's order, coloured by any number."""
    numbers = [_number(scene, found.table, name) for name in MEASURE_BY_NAME]
    if costs:
        numbers.insert(0, _effects(scene, costs))
    by = state.heads_by if any(one.name == state.heads_by for one in numbers) else "layer"
    overview.all_heads(scene, lambda: payloads.atlas(scene, numbers, by), _drawn)


def _number(scene: Scene, table: pd.DataFrame, name: str) -> HeadNumber:
    values = _empty(scene)
    for block, cells in values.items():
        own = table[(table["stack"] == MAPS[block][0]) & (table["block"] == MAPS[block][1])]
        cells[own["layer"].to_numpy(int), own["head"].to_numpy(int)] = own[name].to_numpy(float)
    return HeadNumber(name, order_name(name), values, told=_is_chosen(name))


def _effects(scene: Scene, costs: Costs) -> HeadNumber:
    values = _empty(scene)
    for site, cost in costs.items():
        if site.map in values and site.head is not None:
            values[site.map][site.layer, site.head] = cost.effect
    return HeadNumber("effect", order_name("effect"), values, told=_is_chosen("effect"), digits=3)


def _is_chosen(name: str) -> bool:
    return name in (state.heads_by, state.scale)


def _empty(scene: Scene) -> dict[str, np.ndarray]:
    run = scene.before
    return {name: np.full(run.thumbnail(name).shape[:2], np.nan) for name in run.maps}


def _drawn(said: object) -> None:
    """Store the tiles' settings: the order is shared with the table, the rest with other pages."""
    if not isinstance(said, Mapping):
        return
    order = said.get("sort")
    unmoved = order == "layer" and state.heads_by in ("role", "effect")
    if order in HEADS_BY and not unmoved:
        widget_sync.choose(heads_by=order)
    head_card.take_drawing({name: value for name, value in said.items() if name != "sort"})


def rows(scene: Scene, found: HeadEvidence, costs: Costs) -> None:
    """Draw the chosen block's heads in the chosen order; by role, all blocks' heads in groups."""
    place = scene.place
    stack, block = MAPS[place.map_name]
    table = found.table
    opened = Site(stack, block, place.layer, place.head)
    sections = None
    if state.heads_by == "role":
        sections = _by_role(table)
        given = {role for roles in table["roles"] for role in roles}
        columns = [role for role in ROLE_TEXTS if role in given] or list(SHOWN["self"])
    else:
        table = table[(table["stack"] == stack) & (table["block"] == block)]
        table = sorted_heads(table, state.heads_by, costs)
        columns = list(SHOWN[block])
        if state.heads_by in MEASURE_BY_NAME and state.heads_by not in columns:
            columns.insert(0, state.heads_by)
    links = addresses(Site(*head) for head in table[HEAD].itertuples(index=False, name=None))
    st.html(
        head_table(table, columns, costs or None, opened=opened, addresses=links, sections=sections)
    )
    layout.quiet(
        say(
            "Bar: the value, with its 95 % line; orange: chance. Press a number for these in "
            "figures and the rows asked; press a name to open the head in Explore."
        )
    )
    take(found)


def sorted_heads(table: pd.DataFrame, by: str, costs: Costs) -> pd.DataFrame:
    """Return the heads, largest first and missing values last; by layer in the model's order."""
    if by in ("layer", "role") or (by == "effect" and not costs):
        return table
    if by == "effect":
        sites = [Site(*head) for head in table[HEAD].itertuples(index=False, name=None)]
        values = pd.Series(
            [costs[site].effect if site in costs else float("nan") for site in sites], table.index
        )
    else:
        values = table[by]
    order = values.sort_values(ascending=False, kind="stable", na_position="last").index
    return table.loc[order]


def _by_role(table: pd.DataFrame) -> list[Section]:
    """Return the heads of each role, largest first, and those without a role."""
    found = []
    for role, text in ROLE_TEXTS.items():
        own = table[[role in roles for roles in table["roles"]]].sort_values(role, ascending=False)
        if len(own):
            found.append(Section(say(text), tuple(own.index)))
    none = table[[not roles for roles in table["roles"]]]
    return [*found, Section(say("no role found"), tuple(none.index))]


def addresses(sites: Iterable[Site]) -> dict[Site, str]:
    """Return the link that opens each head in Explore and keeps all other settings."""
    here = st.query_params.to_dict()
    found = {}
    for site in sites:
        there = {"block": site.map, "layer": str(site.layer), "head": str(site.head)}
        found[site] = f"./?{urlencode(here | there)}"
    return found


def take(found: HeadEvidence) -> None:
    """Draw all numbers of all heads, and a download with the card of the measurement."""
    panel = layout.unfolding(say("all numbers"), "heads-numbers")
    if panel is None:
        return
    plain = found.table.assign(
        roles=found.table["roles"].map(", ".join), states=found.table["states"].map(", ".join)
    )
    with panel:
        st.dataframe(plain, hide_index=True, key="heads-table", height=280)
        table_files(plain, found.card, "heads")
