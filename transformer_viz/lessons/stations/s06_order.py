"""Station 6: word order and positional encodings."""

from __future__ import annotations

from typing import Any

from ...core.interventions import Intervention, ScalePositions
from ...core.trace import Trace
from ...i18n import mark, say
from ..find_spot import SHORT, some_word
from ..lesson_types import Ask, Notes, NotHere, Saying, Seen, Spot, Station
from ..number_format import quoted

DROPPED = Intervention((ScalePositions(value=0.0),))


def _find(trace: Trace, block: str) -> Spot:
    return Spot(block, row=some_word(trace, "encoder" if block == "encoder" else "decoder"))


def _state(spot: Spot) -> dict[str, Any]:
    return {"stack": "encoder" if spot.map_name == "encoder" else "decoder", "place": spot.row}


def _ask(seen: Seen) -> Ask:
    if not seen.mixed:
        raise NotHere(say(SHORT))
    straight, mixed, trained = seen.said
    same = straight == mixed
    told = {"mixed": quoted(seen.mixed), "said": quoted(straight), "trained": quoted(trained)}
    if same:
        why = say(
            "Both times it writes {said}. Without positions it cannot tell the two orders apart: "
            "to it the sentence is a bag of words. With its positions the model writes {trained} "
            "for the mixed words.",
            **told,
        )
    else:
        why = say(
            "It writes {said} for your sentence and {other} for the mixed words. So something "
            "besides the positions still tells the order: a causal mask does, because each word "
            "sees only those before it.",
            other=quoted(mixed),
            **told,
        )
    return Ask(
        say(
            "Take all positions away. Then give the model your sentence, and the same words mixed: "
            "{mixed}. What does it write?",
            **told,
        ),
        (say("the same both times"), say("two different texts")),
        0 if same else 1,
        why,
        say(
            "For your sentence it then writes {said}; is anything left by which it could tell the "
            "mixed words from it?",
            **told,
        ),
    )


STATION = Station(
    name="order",
    title=mark("Order: positions"),
    page="positions",
    minutes=6,
    aim=mark("Why attention alone sees a bag of words, and what positions add."),
    text=mark(
        "[Attention|attention] compares words, but it does not ask where they stand: “dog bites "
        "man” and “man bites dog” would be the same to it. So the model gives each place a pattern "
        "of numbers of its own, the [position], and adds it to the word's numbers. The table below "
        "shows these patterns."
    ),
    do=mark("Drop the positions below, and compare the two orders at the foot of the page."),
    notes=Notes(
        say=mark(
            "The waves are like the hands of a clock: the fast ones tell near places apart, the "
            "slow ones far places. Scroll to the wavelengths to show it."
        ),
        ask=mark("Why not simply add the number of the place: 1, 2, 3, up to 1000?"),
        beware=mark(
            "A model whose positions are taken away now is not a model that was trained without "
            "them: it meets inputs that it has never seen."
        ),
    ),
    maps=("encoder", "decoder"),
    find=_find,
    state=_state,
    ask=_ask,
    sayings=(Saying(DROPPED), Saying(DROPPED, mixed=True), Saying(mixed=True)),
)
