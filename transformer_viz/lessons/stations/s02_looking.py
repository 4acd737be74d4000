"""Station 2: reading an attention map."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...i18n import mark, say
from ...metrics.attention.map_cells import axes
from ..find_spot import choices, telling
from ..lesson_types import READ, Ask, Exercise, Notes, Seen, Spot, Station
from ..number_format import quoted, share


def _state(spot: Spot) -> dict[str, Any]:
    return {"block": spot.map_name, "layer": spot.layer, "head": spot.head, "token": spot.row}


def _ask(seen: Seen) -> Ask:
    spot = seen.spot
    attention = seen.clean.block(spot.map_name, spot.layer)
    rows, columns = axes(seen.clean, attention)
    weights = attention.weights[spot.head, spot.row]
    order = [int(key) for key in np.argsort(-weights, kind="stable")]
    keys = choices(spot.key, weights, columns)
    word, names = quoted(rows.labels[spot.row]), [quoted(label) for label in columns.labels]
    return Ask(
        say(
            "Find the row of {word} in head {head}. Which word does it look at most?",
            word=word,
            head=spot.label,
        ),
        tuple(names[key] for key in keys),
        keys.index(spot.key),
        say(
            "{word} gives {first} a weight of {most}, and {second} {next}. All {count} weights of "
            "this row add up to {sum}.",
            word=word,
            first=names[order[0]],
            most=share(float(weights[order[0]])),
            second=names[order[1]],
            next=share(float(weights[order[1]])),
            count=len(weights),
            sum=f"{float(weights.sum(dtype=np.float64)):.2f}",
        ),
        say(
            "Follow the framed row to its strongest cell, and go up from there: this one cell has "
            "{most} of the whole row.",
            most=share(float(weights[order[0]])),
        ),
        _exercise(word, names, weights, order),
    )


def _exercise(word: str, names: list[str], weights: np.ndarray, order: list[int]) -> Exercise:
    """Return a row without its largest weight, which is the difference to 1."""
    shown = order[: min(6, len(order))]
    rest = sum(round(float(weights[key]), 3) for key in order[len(shown) :])
    cells = {key: f"{float(weights[key]):.3f}" for key in shown}
    lacking = 1 - rest - sum(float(cells[key]) for key in shown[1:])
    rows = [(say("looked at"), say("weight"))]
    rows += [(names[key], "" if key == shown[0] else cells[key]) for key in sorted(shown)]
    if len(order) > len(shown):
        rows.append((say("all others together"), f"{rest:.3f}"))
    return Exercise(
        say("This is the row of {word}. One weight is missing. Find it.", word=word),
        tuple(rows),
        say(
            "The weights of a row sum to 1, so {lacking} is missing; the model's own number is "
            "{weight}, and the difference is rounding.",
            lacking=f"{lacking:.3f}",
            weight=f"{float(weights[shown[0]]):.4f}",
        ),
    )


STATION = Station(
    name="looking",
    title=mark("Who looks at whom"),
    page="explore",
    minutes=6,
    aim=mark("How to read a map of attention, and why each row sums to 1."),
    text=mark(
        "To understand a word you need the others. In the map each row belongs to one word that "
        "looks, each column to one that is looked at: the stronger the colour of a cell, the "
        "larger its [weight]. This is [attention]. The weights of a row are shares of one whole, "
        "so they add up to 1. Each layer has several [heads|head], and each head a map of its own: "
        "L1 H0 is head 0 of layer 1, counted from 0. The map of the head asked about is the large "
        "one; the row asked about is framed."
    ),
    do=mark("Choose a row and say its largest weight aloud. Then click another head."),
    notes=Notes(
        say=mark(
            "Always read along a row: this word looks at that one. Let somebody come to the front "
            "and follow a row with a finger."
        ),
        ask=mark("If a word looks more at one word, what happens to the other weights of its row?"),
        beware=mark(
            "Columns need not sum to 1: a word can be looked at by everybody or by nobody. And "
            "“it looks at” is a picture for a share in a sum, not a thought."
        ),
    ),
    maps=("encoder", "decoder"),
    find=telling,
    state=_state,
    ask=_ask,
    first=READ,
    looks=True,
)
