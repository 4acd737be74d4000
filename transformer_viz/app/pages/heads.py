"""Heads: what is each head for, and what happens without it?"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from urllib.parse import urlencode

import pandas as pd
import streamlit as st

from ...core.errors import is_fault
from ...core.interventions import ScaleHead
from ...core.sites import MAPS, Site
from ...i18n import mark, say
from ...metrics.head_measures.evidence import HeadEvidence
from ...views.csv_text import csv_text
from ...views.html.head_table import (
    DASH,
    MEASURE_TEXTS,
    ROLE_TEXTS,
    Cost,
    costs_of,
    head_table,
    measure_cell,
    roles_of,
)
from ..cards import overview, token_chips
from ..cards.dock import dock
from ..cards.written import written_freely
from ..engine.engine import Engine
from ..heads import removal, sentences, upload
from ..heads.jobs import Item, measured
from ..page_template import show
from ..session import changes
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import HEADS_BY
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import escape_markdown, spoken

QUESTION = mark("What is each head for, and what happens without it?")
#: Columns that always stand; the one that is sorted by is added.
SHOWN = {"cross": ("diagonality", "coverage", "entropy"), "self": ("previous", "self", "entropy")}


def draw(engine: Engine) -> None:
    """The page Heads."""
    show(engine, _body)


def _body(scene: Scene) -> Callable[[], None] | None:
    rows = token_chips.rows_for_stack(scene, scene.kind.stacks[0], -1, "column")
    written = token_chips.sentences(scene, rows, lambda chip: None)
    layout.heading(escape(say(QUESTION)))
    if scene.kind.takes != "text" or scene.kind.eyes:
        st.info(
            say(
                "Heads are measured on sentences here, and the model at hand reads something else. "
                "Choose a model that reads one text, such as en-de; Explore shows its heads."
            )
        )
    else:
        try:
            _measured(scene)
        except Stopped:  # says so itself, and offers to go on
            pass
        except (ValueError, LookupError) as error:
            if is_fault(error):
                raise
            st.info(escape_markdown(spoken(error)))
    return written_freely(scene, written, dock(scene, live=False, comparing=False))


def _measured(scene: Scene) -> None:
    source = _choices(scene)
    if source is None:
        return
    found = _evidence(scene, source)
    stored = sentences.stored(scene) if source == "stored" else None
    costs = None if stored is None else costs_of(stored.ranking["columns"])
    layout.quiet(escape(_told(found, source, stored)))
    with st.container(key="pictures-heads"):
        left, right = st.columns((5, 9))
        with left.container(border=True, height="stretch", key="card-overview"):
            overview.block(scene)
            overview.all_heads(scene)
        with right.container(border=True, height="stretch", key="card-heads"):
            _table(scene, found, costs)
    with st.container(border=True, key="card-one-head"):
        _one_head(scene, found, source)
    with st.container(border=True, key="card-removal"):
        removal.card(scene, source, stored)


def _choices(scene: Scene) -> str | None:
    """Which sentences; None while a file is wanted that is not there yet."""
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
            format_func=_order_name,
            width=layout.NAME_WIDTH,
        )
    if state.heads_on == "file" and not upload.file():
        return None
    return sentences.chosen(scene)


def _order_name(name: str) -> str:
    if name == "layer":
        return say("layer")
    return say("what its removal costs") if name == "effect" else say(MEASURE_TEXTS[name][0])


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
    """What was measured, on what, and what it cannot say."""
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
            rows=f"{found.card['rows']:,}",
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
    return " ".join(told)


def _table(scene: Scene, found: HeadEvidence, costs: dict[Site, Cost] | None) -> None:
    """The heads of the chosen block, in the chosen order."""
    place = scene.place
    stack, block = MAPS[place.map_name]
    table = found.table[(found.table["stack"] == stack) & (found.table["block"] == block)]
    table = _sorted(table, state.heads_by, costs)
    columns = list(SHOWN[block])
    if state.heads_by in MEASURE_TEXTS and state.heads_by not in columns:
        columns.insert(0, state.heads_by)
    opened = Site(stack, block, place.layer, place.head)
    st.html(head_table(table, columns, costs, opened=opened, addresses=_addresses(table)))
    _take(found)


def _sorted(table: pd.DataFrame, by: str, costs: dict[Site, Cost] | None) -> pd.DataFrame:
    """The largest first, heads without a value last; by layer, as the model has them."""
    if by == "layer" or (by == "effect" and costs is None):
        return table
    if by == "effect":
        assert costs is not None
        sites = [Site(*head) for head in table[["stack", "block", "layer", "head"]].to_numpy()]
        values = pd.Series(
            [costs[site].effect if site in costs else float("nan") for site in sites], table.index
        )
    else:
        values = table[by]
    order = values.sort_values(ascending=False, kind="stable", na_position="last").index
    return table.loc[order]


def _addresses(table: pd.DataFrame) -> dict[Site, str]:
    """Where each head is opened: Explore, with all else as it is."""
    here = st.query_params.to_dict()
    found = {}
    for head in table[["stack", "block", "layer", "head"]].itertuples(index=False):
        site = Site(head.stack, head.block, int(head.layer), int(head.head))
        there = {"block": site.map, "layer": str(site.layer), "head": str(site.head)}
        found[site] = f"./?{urlencode(here | there)}"
    return found


def _take(found: HeadEvidence) -> None:
    """Every number of every head, and the card that says what was measured."""
    panel = layout.unfolding(say("all numbers"), "heads-numbers")
    if panel is None:
        return
    plain = found.table.assign(
        roles=found.table["roles"].map(", ".join), states=found.table["states"].map(", ".join)
    )
    with panel:
        st.dataframe(plain, hide_index=True, key="heads-table", height=280)
        with layout.row():
            card = json.dumps(found.card, indent=2, ensure_ascii=False)
            for label, data, name, mime in (
                ("CSV", csv_text(plain), "heads.csv", "text/csv"),
                (say("run card"), card, "heads.card.json", "application/json"),
            ):
                st.download_button(
                    label,
                    data=data.encode(),
                    file_name=name,
                    mime=mime,
                    key=f"take-{name}",
                    on_click="ignore",
                )


def _one_head(scene: Scene, found: HeadEvidence, source: str) -> None:
    """The selected head: every measure, and the sentences that show its roles."""
    place = scene.place
    stack, block = MAPS[place.map_name]
    table = found.table
    here = (
        (table["stack"] == stack)
        & (table["block"] == block)
        & (table["layer"] == place.layer)
        & (table["head"] == place.head)
    )
    number = int(here.to_numpy().argmax())
    row = table.iloc[number]
    site = Site(stack, block, place.layer, place.head)
    with layout.row("center", spread=True):
        layout.heading(f"{escape(str(site))}: {roles_of(row)}", 3, fit=True, what="one-head")
        edit = ScaleHead(value=0, stack=stack, block=block, layer=place.layer, head=place.head)
        off = edit in changes.intervention().edits
        st.button(
            say("switch it on again") if off else say("switch it off"),
            key="heads-off",
            on_click=_toggle,
            args=(edit,),
        )
    layout.quiet(escape(say("Off, it gives nothing; the ranking lets it give its mean instead.")))
    cells = "".join(
        f'<tr title="{escape(say(asks))}"><th>{escape(say(title))}</th>'
        f"<td>{measure_cell(row, name)}</td><td>{_rows(row, name)}</td>"
        f"<td>{escape(say(asks))}</td></tr>"
        for name, (title, asks) in MEASURE_TEXTS.items()
    )
    with st.expander(say("all {count} measures of this head", count=len(MEASURE_TEXTS))):
        st.html(f'<div class="tv-heads"><table><tbody>{cells}</tbody></table></div>')
    for role in row["roles"]:
        _examples(scene, found, source, number, role)


def _rows(row: pd.Series, name: str) -> str:
    count = int(row[f"{name}_rows"])
    return escape(say("{count} rows", count=f"{count:,}")) if count else DASH


def _examples(scene: Scene, found: HeadEvidence, source: str, number: int, role: str) -> None:
    """The sentences in which a role shows best, and some in which it shows as it mostly does."""
    items = sentences.asked(scene, source)
    place = scene.place
    layout.heading(escape(say("{role}: where it shows", role=say(ROLE_TEXTS[role]))), 3)
    best, typical = found.examples.get((number, role), ((), ()))
    if not best:
        layout.quiet(escape(say("No sentence has three rows or more that could be asked.")))
    for title, numbers in ((say("most"), best), (say("typically"), typical)):
        for one in numbers:
            item = items[one]
            text = item if isinstance(item, str) else item[0]
            there = {
                "text": text,
                "block": place.map_name,
                "layer": place.layer,
                "head": place.head,
            }
            link = {
                key: value
                for key, value in st.query_params.to_dict().items()
                if key not in ("target", "edits")
            }
            href = escape(f"./?{urlencode(link | there)}")
            st.html(
                f'<p class="tv-say" data-what="example-{role}"><span class="tv-quiet">'
                f"{escape(title)}</span> "
                f'<a href="{href}" target="_self">{escape(str(text))}</a></p>'
            )


def _toggle(edit: ScaleHead) -> None:
    """In a callback: the head off, or on again."""
    now = changes.intervention()
    edits = (*now.edits, edit)
    changes.change(now.without(edit) if edit in now.edits else type(now)(edits))
