"""Station 5: several heads with different attention patterns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.sites import MAPS, Site
from ...core.trace import Trace
from ...i18n import mark, numeral, say
from ..find_spot import neighbours
from ..lesson_types import Ask, Notes, NotHere, Seen, Spot, Station
from ..number_format import share

BEFORE = -1  # offset of the previous token


def _find(trace: Trace, block: str) -> Spot:
    """Return the head whose tokens attend most to the previous token."""
    shares = neighbours(trace, block, BEFORE)
    if len(shares) < 2:
        raise NotHere(say("This block has one head only, so there is nothing to compare."))
    layer, head = max(shares, key=lambda at: shares[at])
    return Spot(block, layer, head, row=1)


def _most(seen: Seen) -> bool:
    """Return True if most tokens of the found head attend most to the previous token."""
    spot = seen.spot
    weights = seen.clean.block(spot.map_name, spot.layer).weights[spot.head]
    before = weights.argmax(axis=1)[1:] == np.arange(len(weights) - 1)  # the first token has none
    return bool(2 * before.sum() > len(before))


def _question(seen: Seen) -> str:
    if _most(seen):
        return say(
            "In one of these heads most words look at the word just before them: a line just "
            "below the diagonal. In which?"
        )
    return say("In which of these heads do words look most at the word just before them?")


def _state(spot: Spot) -> dict[str, Any]:
    return {"block": spot.map_name, "layer": 0, "head": 0, "token": 1, "blocks": "one"}


def _ask(seen: Seen) -> Ask:
    shares = neighbours(seen.clean, seen.spot.map_name, BEFORE)
    best = (seen.spot.layer, seen.spot.head)
    ranked = sorted((at for at in shares if at != best), key=lambda at: (shares[at], at))
    others = {ranked[0], ranked[len(ranked) // 2], ranked[len(ranked) // 4]}  # far behind
    options = sorted({best, *others})
    label = {at: Spot("", *at).label for at in options}
    rival = ranked[-1]
    return Ask(
        _question(seen),
        tuple(label[at] for at in options),
        options.index(best),
        say(
            "In {head} a word gives the word just before it {share} of its attention on average, "
            "the most of all {count} heads here; the next one is {rival} with {less}. This "
            "describes the maps of this sentence; it does not prove what the head is for.",
            head=label[best],
            share=share(shares[best]),
            count=len(shares),
            rival=Spot("", *rival).label,
            less=share(shares[rival]),
        )
        + _missed(seen),
        say(
            "In that head a word gives the word just before it {share} of its attention on "
            "average: look for strong cells just below the diagonal.",
            share=share(shares[best]),
        ),
    )


def _missed(seen: Seen) -> str:
    """Return the loss without this head, and without the costliest one."""
    own = Site(*MAPS[seen.spot.map_name], seen.spot.layer, seen.spot.head)
    if own not in seen.costs:
        return ""
    order = sorted(seen.costs, key=lambda site: -seen.costs[site])
    about = {"rank": order.index(own) + 1, "count": len(order)}
    if seen.costs[own] < 0:  # "loses -0.004" is hard to read
        told = say(
            "And does the model need it? With its mean in its place each word of the output even "
            "becomes more probable, by {gain:.3f} nats: rank {rank} of all {count} heads.",
            gain=-seen.costs[own],
            **about,
        )
    else:
        told = say(
            "And does the model need it? With its mean in its place each word of the output loses "
            "{cost:.3f} nats: rank {rank} of all {count} heads.",
            cost=seen.costs[own],
            **about,
        )
    if order[0] != own:
        told += " " + say(
            "It is {head} that this sentence misses most, {cost}.",
            head=str(order[0]),
            cost=numeral(seen.costs[order[0]], "+.3f"),
        )
    return " " + told + " " + say("One sentence is a hint; the page Heads asks many.")


STATION = Station(
    name="heads",
    title=mark("Many heads"),
    page="explore",
    minutes=6,
    aim=mark("Why a layer has several heads, and how to tell their habits apart."),
    text=mark(
        "A [layer] has several [heads|head]. They read the same sentence at the same time, each "
        "with queries, keys and values of its own. Nobody told them what to look for; training "
        "did. Compare the small maps: one row of them is one layer. A line beside the diagonal "
        "means that words look at their neighbours."
    ),
    do=mark("Find a head that looks at itself, one at the end of the sentence, one far away."),
    notes=Notes(
        say=mark(
            "Give each group one layer and two minutes: which habits do its heads have? Collect "
            "names for them on the board, and try them on another sentence."
        ),
        ask=mark("Would eight heads that all do the same be better than one?"),
        beware=mark(
            "A name such as “the previous-word head” is a description of some maps, not a job that "
            "somebody gave it. On another sentence the habit may break."
        ),
    ),
    maps=("encoder", "decoder"),
    find=_find,
    state=_state,
    ask=_ask,
    ranked=True,
)
