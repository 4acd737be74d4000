"""Station 8: the causal mask of a decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.interventions import Causal, Intervention
from ...core.trace import Trace
from ...core.trace_parts import Produced
from ...i18n import mark, say
from ..find_spot import SHORT
from ..lesson_types import Ask, Notes, NotHere, Seen, Spot, Station
from ..number_format import share

LIFTED = Intervention((Causal(on=False, stack="decoder", block="self"),))
SAME = 0.02  # a mean probability that changes by less counts as unchanged


def _find(trace: Trace, block: str) -> Spot:
    """Return a row in the middle, with tokens before and after it."""
    rows = len(trace.words_of("decoder"))
    if rows < 3 or trace.produced is None:
        raise NotHere(say(SHORT))
    return Spot(block, row=rows // 2)


def _state(spot: Spot) -> dict[str, Any]:
    return {"block": spot.map_name, "layer": 0, "head": 0, "token": spot.row, "scope": "block"}


def mean_probability(trace: Trace) -> float:
    """Return the mean probability that a run gives to its target tokens."""
    said = trace.produced
    assert isinstance(said, Produced)
    return float(np.mean(said.probability, dtype=np.float64))


def _ahead(trace: Trace, spot: Spot) -> float:
    """Return a row's attention to later tokens in the first layer, mean over heads."""
    weights = trace.block(spot.map_name, spot.layer).weights[:, spot.row, spot.row + 1 :]
    return float(weights.sum(axis=1, dtype=np.float64).mean())


def _ask(seen: Seen) -> Ask:
    (lifted,) = seen.changed
    before, after = mean_probability(seen.clean), mean_probability(lifted)
    change = after - before
    right = 0 if change > SAME else 2 if change < -SAME else 1
    told = {
        "before": share(before),
        "after": share(after),
        "ahead": share(_ahead(lifted, seen.spot)),
    }
    return Ask(
        say(
            "The model reads its finished text and gives each right next word a probability of "
            "{before} on average. Now we lift the mask, so that it can see the words it should "
            "guess. What becomes of this number?",
            **told,
        ),
        (say("it rises"), say("it stays as it is"), say("it falls")),
        right,
        (_rises, _stays, _falls)[right](told),
        say(
            "Without the mask a row in the middle gives {ahead} of its attention in the first "
            "layer to later words; in training it never saw any.",
            **told,
        ),
    )


def _rises(told: dict[str, str]) -> str:
    return say(
        "It rises from {before} to {after}: the answer leaks in. A row in the middle now gives "
        "{ahead} of its attention in the first layer to later words. Such a number says nothing "
        "about translating: when the model writes by itself there are no later words.",
        **told,
    )


def _stays(told: dict[str, str]) -> str:
    return say(
        "It hardly moves: {before} and then {after}, although a row in the middle now gives "
        "{ahead} of its attention in the first layer to later words. In training those were never "
        "there, so the model did not learn to use them.",
        **told,
    )


def _falls(told: dict[str, str]) -> str:
    return say(
        "It falls from {before} to {after}. A row in the middle now gives {ahead} of its attention "
        "in the first layer to later words. In training those were never there: the model did not "
        "learn to copy from them, and they disturb it. Trained without the mask it would have "
        "learned to copy, and nothing else.",
        **told,
    )


STATION = Station(
    name="masks",
    title=mark("Masks: no looking ahead"),
    page="explore",
    minutes=5,
    aim=mark("Why a decoder must not see later words, and what a mask does to scores."),
    text=mark(
        "The [decoder] writes one word after the other. In training it reads whole texts at once, "
        "so a [causal mask] hides all later words: their [scores|score] become minus infinity, and "
        "the [softmax] makes 0 of that. These are the hatched cells. The first row sees one word, "
        "the second sees two, and so on."
    ),
    do=mark("Count how many words the chosen row may see. Then switch the causal mask off."),
    notes=Notes(
        say=mark(
            "Cover a written sentence with a sheet of paper and slide it along: at each step the "
            "class guesses the next word. The paper is the mask."
        ),
        ask=mark("Why does the encoder need no such mask?"),
        beware=mark(
            "Hiding is not the same as a weight of 0 set afterwards: then a row would no longer "
            "sum to 1. The mask comes before the softmax."
        ),
    ),
    maps=("decoder",),
    find=_find,
    state=_state,
    ask=_ask,
    experiments=lambda seen: (LIFTED,),
)
