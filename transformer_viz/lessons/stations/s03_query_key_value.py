"""Station 3: query, key, value, and the softmax of scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.numerics import MASK_SCORE
from ...i18n import mark, say
from ...metrics.attention.map_cells import axes
from ..find_spot import SHORT, telling
from ..lesson_types import Ask, Exercise, Notes, NotHere, Seen, Spot, Station
from ..number_format import exact, quoted, rough, share

APART = 2.0  # difference of scores that is easy to explain
NEAR, WIDE = 1.1, 6.0  # smallest and largest difference


def _state(spot: Spot) -> dict[str, Any]:
    at = {"block": spot.map_name, "layer": spot.layer, "head": spot.head}
    return at | {"token": spot.row, "key": spot.key}


def rival(scores: np.ndarray, key: int) -> int:
    """Return another key with a clearly lower score than ``key``, ideally about 2 lower.

    Args:
        scores: Scores of one row ``[key]``; masked ones are skipped.
        key: The key to compare with.

    Raises:
        NotHere: All others are too near or too far.
    """
    below = float(scores[key]) - scores.astype(np.float64)
    fit = (below >= NEAR) & (below <= WIDE) & (scores > MASK_SCORE)
    if not fit.any():
        raise NotHere(say(SHORT))
    return int(np.where(fit, np.abs(below - APART), np.inf).argmin())


def _ask(seen: Seen) -> Ask:
    spot = seen.spot
    attention = seen.clean.block(spot.map_name, spot.layer)
    if attention.scores is None:
        raise NotHere(say("This model does not make its weights from scores, so there are none."))
    rows, columns = axes(seen.clean, attention)
    scores = attention.scores[spot.head, spot.row, : len(columns)]
    weights = attention.weights[spot.head, spot.row]
    other = rival(scores, spot.key)
    high, low = (round(float(scores[key]), 2) for key in (spot.key, other))
    gap = high - low  # of the displayed numbers, so that it can be checked by hand
    right = math.exp(gap)
    factors = sorted((gap, right, (2.0 if spot.row % 2 else 10.0) ** gap))
    fields = {
        "word": quoted(rows.labels[spot.row]),
        "first": quoted(columns.labels[spot.key]),
        "second": quoted(columns.labels[other]),
    }
    return Ask(
        say(
            "In head {head} {word} gives {first} the score {high} and {second} the score {low}. "
            "How much more weight does {first} get?",
            head=spot.label,
            high=f"{high:.2f}",
            low=f"{low:.2f}",
            **fields,
        ),
        (
            say("both get the same"),
            *(say("about {factor} times as much", factor=rough(factor)) for factor in factors),
        ),
        1 + factors.index(right),
        say(
            "The softmax raises e = 2.718… (a fixed number, as π is) to each score. The scores "
            "differ by {gap}, so {first} gets e to the power {gap} = {factor} times the weight of "
            "{second}: {most} against {less}.",
            gap=f"{gap:.2f}",
            factor=rough(right),
            most=share(float(weights[spot.key])),
            less=share(float(weights[other])),
            **fields,
        ),
        say(
            "Each step of 1 between two scores makes the weight about 2.7 times as large, and "
            "these two lie {gap} apart.",
            gap=f"{gap:.2f}",
        ),
        _exercise(fields["word"], columns.labels, scores, weights, spot.key),
    )


def _exercise(
    word: str, labels: tuple[str, ...], scores: np.ndarray, weights: np.ndarray, key: int
) -> Exercise:
    """Return three scores, with their shares of the three as the task."""
    order = [int(one) for one in np.argsort(-weights, kind="stable") if scores[one] > MASK_SCORE]
    chosen = sorted(order[:3])
    rounded = [round(float(scores[one]), 2) for one in chosen]
    powers = [math.exp(score) for score in rounded]
    shares = [power / sum(powers) for power in powers]
    rows = [(say("looked at"), say("score s"), say("e to the power s"), say("share of the three"))]
    rows += [
        (quoted(labels[one]), f"{score:.2f}", "", "")
        for one, score in zip(chosen, rounded, strict=True)
    ]
    solved = "; ".join(
        f"{quoted(labels[one])} {exact(power)}, {part:.3f}"
        for one, power, part in zip(chosen, powers, shares, strict=True)
    )
    return Exercise(
        say(
            "These are the three best scores in the row of {word}. Take e to the power of each, "
            "and divide by the sum of the three.",
            word=word,
        ),
        tuple(rows),
        say(
            "{solved}. In the whole row the others take their shares too, so the model's own "
            "weights are smaller: {first} has {weight}.",
            solved=solved,
            first=quoted(labels[key]),
            weight=f"{float(weights[key]):.4f}",
        ),
    )


STATION = Station(
    name="query-key-value",
    title=mark("Query, key, value"),
    page="step-inside",
    minutes=8,
    aim=mark("How a weight is made from two rows of numbers, and what the softmax does."),
    text=mark(
        "From its numbers each word makes three more rows: a [query] (what do I look for?), a "
        "[key] (what do I offer?) and a [value] (what do I hand on?). Query times key, number by "
        "number and summed, then made smaller (÷√dₖ; why, comes in station 4), is a [score]. The "
        "[softmax] turns scores into weights: a score larger by 1 gets about 2.7 times the weight. "
        "The weights mix the values. Press “next step” below until “softmax” to follow the "
        "numbers."
    ),
    do=mark("Go through the steps one by one, and open one number to see its sum."),
    notes=Notes(
        say=mark(
            "A library helps: the query is what you ask the librarian, the keys are the labels on "
            "the shelves, the values are what stands in the books."
        ),
        ask=mark(
            "Why are query and key two different things? What if each word asked with its key?"
        ),
        beware=mark(
            "The softmax does not pick the winner; it shares. A score of 0 is not a weight of 0, "
            "and scores may be negative."
        ),
    ),
    maps=("encoder", "decoder"),
    find=telling,
    stage="qkv",
    looks=True,
    state=_state,
    ask=_ask,
)
