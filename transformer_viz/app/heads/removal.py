"""What happens without each head: ranked by removal, alone and together."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ... import views
from ...core.sites import MAPS, Site
from ...i18n import mark, say
from ...views.charts.curves import Curve
from ...views.csv_text import csv_text
from ...views.html.head_table import removal_table
from ..cards.plotly_chart import chart
from ..session import visit
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout
from ..ui.progress import run_with_progress
from . import sentences
from .jobs import Item, Removals, Together, ranked, together

METHODS = {
    "mean": mark("its mean"),
    "zero": mark("nothing"),
    "resample": mark("what it gave elsewhere"),
    "uniform": mark("as if it looked everywhere"),
}
SAID = {
    "mean": mark(
        "Each head in turn gives its mean over these sentences, which keeps what is constant in it."
    ),
    "zero": mark(
        "Each head in turn gives nothing. That removes its constant part too, so the numbers "
        "depend on how the weights are written, not on the function alone."
    ),
    "resample": mark("Each head in turn gives what it gave in other sentences of like length."),
    "uniform": mark(
        "Each head in turn looks at all words alike: is it important where it looks? What it "
        "passes on stays."
    ),
}
FIRST = 8  # sentences until the first numbers stand
SHOWN = 20  # heads


def card(scene: Scene, source: str, stored: sentences.Stored | None) -> None:
    """The ranking on the chosen sentences, and what heads cost together."""
    layout.heading(escape(say("What happens without each head?")), 3)
    st.segmented_control(
        say("a removed head gives"),
        list(METHODS),
        key="removal",
        format_func=lambda name: say(METHODS[name]),
        required=True,
    )
    layout.quiet(escape(say(SAID[state.removal])))
    place = st.empty()
    if stored is not None and state.removal == "mean":
        found = Removals(
            pd.DataFrame(stored.ranking["columns"]),
            stored.ranking["card"],
            tuple(stored.ranking["notes"]),
        )
        _draw(place, scene, found)
    else:
        found = _measured(scene, source, place)
    _take(found)
    _together(scene, source)


def _items(scene: Scene, source: str) -> tuple[Item, ...]:
    return sentences.asked(scene, source)[: sentences.REMOVED_ON]


def _measured(scene: Scene, source: str, place: DeltaGenerator) -> Removals:
    """First on a few sentences, so that numbers stand soon, then on all."""
    items = _items(scene, source)
    for count in sorted({min(FIRST, len(items)), len(items)}):
        some = items[:count]
        found = _ranked(scene, some)
        _draw(place, scene, found)
    return found


def _ranked(scene: Scene, some: tuple[Item, ...]) -> Removals:
    method = state.removal  # the thread that works has no session
    found: Removals = run_with_progress(
        lambda task: scene.engine.ask(
            scene.question.model, ranked, some, method, task=task, stepped=True
        ),
        key=f"heads-removed-{len(some)}",
        label=say("Removing one head after the other ..."),
        about=(scene.question.model, some, state.removal),
    )
    return found


def _draw(place: DeltaGenerator, scene: Scene, found: Removals) -> None:
    here = Site(*MAPS[scene.place.map_name], scene.place.layer, scene.place.head)
    with place.container():
        st.html(removal_table(found.table.head(SHOWN), here))
        layout.quiet(escape(_told(found)))


def _told(found: Removals) -> str:
    dull = int(found.table["contains_zero"].sum())
    told = [
        say(
            "On {sentences} sentences, {rows} target tokens, teacher forced.",
            sentences=found.card["sentences"],
            rows=f"{found.card['rows']:,}",
        )
    ]
    if len(found.table) > SHOWN:
        told.append(say("The strongest {shown} of {all} heads.", shown=SHOWN, all=len(found.table)))
    if found.card["sentences"] == 1:
        told.append(say("One sentence has no interval; more sentences tell how sure this is."))
    elif dull:
        told.append(
            say(
                "{dull} heads are not told from no effect on these sentences. That does not make "
                "them useless: others may cover for them.",
                dull=dull,
            )
        )
    return " ".join(told)


def _take(found: Removals) -> None:
    panel = layout.unfolding(say("all numbers"), "removal-numbers")
    if panel is None:
        return
    with panel:
        st.dataframe(found.table, hide_index=True, key="removal-table", height=280)
        with layout.row():
            st.download_button(
                "CSV",
                data=csv_text(found.table).encode(),
                file_name="removal.csv",
                mime="text/csv",
                key="take-removal.csv",
                on_click="ignore",
            )
            st.download_button(
                say("run card"),
                data=json.dumps(found.card, indent=2, ensure_ascii=False).encode(),
                file_name="removal.card.json",
                mime="application/json",
                key="take-removal.card.json",
                on_click="ignore",
            )


def _together(scene: Scene, source: str) -> None:
    """Groups, pairs and curves: measured once they are asked for."""
    folded = st.expander(
        say("Several heads at once: groups, pairs, curves"), key="heads-together", on_change="rerun"
    )
    if not folded.open:
        return
    items = _items(scene, source)
    with folded:
        if len(items) < 2:
            layout.quiet(
                escape(say("One sentence is too few for this; choose more sentences above."))
            )
            return
        method = state.removal
        found: Together = run_with_progress(
            lambda task: scene.engine.ask(
                scene.question.model, together, items, method, task=task, stepped=True
            ),
            key="heads-together-run",
            label=say("Removing several heads at once ..."),
            about=(scene.question.model, items, state.removal),
        )
        chart(
            "removal-curves",
            say("What is left as more and more heads are removed?"),
            lambda: _curves(found),
        )
        layout.heading(escape(say("Groups: all heads of a block or layer at once")), 3)
        st.dataframe(_rounded(found.groups), hide_index=True, key="removal-groups")
        layout.heading(escape(say("Pairs of the twelve strongest")), 3)
        st.dataframe(_rounded(found.pairs), hide_index=True, key="removal-pairs", height=280)
        layout.quiet(
            escape(
                say(
                    "Interaction above 0: one head does what the other did, so neither is missed "
                    "alone. Below 0: both were links of one chain. In nats per token."
                )
            )
        )


def _curves(found: Together) -> Any:
    """The costliest first, the cheapest first, and at random with the band of its orders."""
    names = {
        "most": say("costliest first"),
        "least": say("cheapest first"),
        "random": say("random order, mean of 20"),
    }
    lines = [
        Curve(names[order], curve["removed"].to_numpy(), curve["effect"].to_numpy())
        for order, curve in found.curves.items()
    ]
    random = found.curves["random"]
    lines += [
        Curve(name, random["removed"].to_numpy(), random[end].to_numpy(), dashed=True)
        for name, end in ((say("random, 2.5 %"), "low"), (say("random, 97.5 %"), "high"))
    ]
    return views.curves(
        lines,
        say("heads removed"),
        say("nats per token"),
        say("More loss than at random: the ranking finds what matters, also together."),
        dark=visit.dark(),
    )


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    numbers = table.select_dtypes(np.floating).columns
    return table.assign(**{name: table[name].round(4) for name in numbers})
