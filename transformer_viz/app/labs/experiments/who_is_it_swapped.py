"""Activation patching of heads for the pronoun: one head's output is that of the other sentence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape

import numpy as np
import streamlit as st

from .... import views
from ....core.sites import Site
from ....i18n import mark, numeral, say
from ...engine.swap_jobs import Compared, Grid, compared, grids, together
from ...ui import layout
from ..bench import Bench
from ..pronoun_heads import Carried
from ..sentence_pairs import SentencePair
from .multi_head import MAP_NAMES, arranged

LISTED = 5  # heads in the table, besides the drawn ones
FEW = 3  # heads that are patched together
LEAST = 1e-3  # nats by which both runs must differ
TITLE = mark("Every head swapped alone")


def carried(
    bench: Bench, pair: SentencePair, words: tuple[str, str], sites: Sequence[Site]
) -> Carried | None:
    """Patch every head, second sentence into first; None if both runs rate the words alike."""
    first, second = pair.sentences
    model = bench.scene.question.model
    found: Compared = bench.ask(
        model, compared, first, second, None, 1, words, (), pair.place.before
    )
    if abs(found.leads[0] - found.leads[1]) < LEAST:
        return None
    asked = (first, second, found.held, found.wanted)
    parts: dict[str, Grid] = {
        part: bench.ask(
            model,
            grids,
            *asked,
            "heads",
            part,
            (),
            says=say("Swapping one head after the other ..."),
            stepped=True,
        )
        for part in dict.fromkeys(site.map for site in sites)
    }
    moved = np.array([parts[s.map].moved[s.layer, s.head or 0] for s in sites])
    order = np.argsort(-moved, kind="stable")[:FEW]
    few = tuple(sites[n] for n in order)
    heads = tuple((site.map, site.layer, site.head or 0) for site in few)
    return Carried(tuple(sites), moved, few, bench.ask(model, together, *asked, heads))


def show(bench: Bench, pair: SentencePair, found: Carried, pictured: Sequence[Site]) -> None:
    """Draw the grids, and a table of the largest effects and of the drawn heads."""
    layout.heading(escape(say(TITLE)), 3)
    bench.quiet(
        say(
            "Instead of being switched off, one head at a time gives what it gives in "
            "“… {other}”, while the rest of the run is that of “… {own}”. 0: the pronouns stand as "
            "before, 1: as in the other sentence.",
            own=pair.named[0],
            other=pair.named[1],
        )
    )
    places = [(site.map, site.layer, site.head or 0) for site in found.sites]
    charts = arranged(places, [float(one) for one in found.moved])
    with st.container(key="lab-it-swap"):
        columns = st.columns(len(charts))
    for column, (name, moved) in zip(columns, charts.items(), strict=True):
        with column:
            heads = [f"H{head}" for head in range(moved.shape[1])]
            draw = partial(views.swap_grid, moved, heads, dark=bench.dark)
            bench.chart(f"swap-{name}", say(MAP_NAMES[name]), draw)
    top = [found.sites[n] for n in found.ranked[:LISTED]]
    rows = [
        (_named(site, site in pictured), numeral(_plain(found.of(site)), "+.2f"))
        for site in (*top, *(site for site in pictured if site not in top))
    ]
    names = say("the first {count} of these together", count=len(found.few))
    bench.table(
        (say("swapped alone"), say("moved")),
        [*rows, (names, numeral(_plain(found.together), "+.2f"))],
    )


def _plain(part: float) -> float:
    """Return a number rounded to two digits, without a negative zero."""
    return round(part, 2) + 0.0


def _named(site: Site, pictured: bool) -> str:
    name = f"{say(MAP_NAMES[site.map])} {site.label}"
    return say("{head} (the picture)", head=name) if pictured else name


def told(found: Carried, pictured: Sequence[Site]) -> list[str]:
    """Return sentences on the effects of patching."""
    best = found.sites[found.ranked[0]]
    said = [
        say(
            "Swapped into the first sentence's run, {head} alone makes {part:.0%} of the way to "
            "the other pronoun; the first {count} together {all:.0%}.",
            head=_named(best, False),
            part=_plain(found.of(best)),
            count=len(found.few),
            all=_plain(found.together),
        )
    ]
    said += [
        say(
            "The head of the picture, {head}, makes {part:.0%} of it.",
            head=_named(site, False),
            part=_plain(found.of(site)),
        )
        for site in pictured
        if site != best
    ]
    return said
