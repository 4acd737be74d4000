"""Station 9: cross-attention between target and source."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...i18n import mark, say
from ...metrics.attention.map_cells import axes
from ..find_spot import choices, telling
from ..lesson_types import READ, Ask, Notes, Seen, Spot, Station
from ..number_format import quoted, share


def _state(spot: Spot) -> dict[str, Any]:
    at = {"block": "cross", "layer": spot.layer, "head": spot.head, "token": spot.row}
    return at | {"played": 0, "branch": "", "pooled": False}


def _ask(seen: Seen) -> Ask:
    spot = seen.spot
    attention = seen.clean.block("cross", spot.layer)
    rows, columns = axes(seen.clean, attention)
    weights = attention.weights[spot.head, spot.row]
    order = [int(key) for key in np.argsort(-weights, kind="stable")]
    keys = choices(spot.key, weights, columns)
    names = [quoted(label) for label in columns.labels]
    told = {"word": quoted(rows.labels[spot.row]), "head": spot.label}
    return Ask(
        say(
            "At the step that wrote {word}, which source word did head {head} look at most?",
            **told,
        ),
        tuple(names[key] for key in keys),
        keys.index(spot.key),
        say(
            "It gave {first} {most} and {second} {next}. Often this is the word that is being "
            "translated, but not always: no one asked the heads to line words up, and each of "
            "them looks in its own way.",
            first=names[order[0]],
            most=share(float(weights[order[0]])),
            second=names[order[1]],
            next=share(float(weights[order[1]])),
        ),
        say(
            "Press “step” until {word} is written, and look for the source word with {most}.",
            word=told["word"],
            most=share(float(weights[order[0]])),
        ),
    )


STATION = Station(
    name="crossing",
    title=mark("The two sentences meet"),
    page="play",
    minutes=6,
    aim=mark("How the decoder reads the source while it writes, one word at a time."),
    text=mark(
        "Now both sentences meet. Before it writes a word the [decoder] asks the [source] "
        "sentence: this is [cross-attention], with queries from the [target] and keys and values "
        "from the [encoder]. Then it gives every word it knows a [probability], writes one of "
        "them, and begins again. Press “step” until the word asked about is written, and look at "
        "the bars."
    ),
    do=mark("Step through the translation and guess each next word before it appears."),
    notes=Notes(
        say=mark(
            "Stop at a word whose place differs in the two languages, such as a verb at the end: "
            "there the row of attention jumps."
        ),
        ask=mark("Which candidates came second? Would they have been wrong?"),
        beware=mark(
            "Row t belongs to the step that produced word t, not to the step that read it. And the "
            "best word at each step need not give the best sentence: that is why there is beam "
            "search."
        ),
    ),
    maps=("cross",),
    find=telling,
    free=True,
    state=_state,
    ask=_ask,
    first=READ,
)
