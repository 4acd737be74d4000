"""Station 7: the residual stream grows, and norms bring it back to one scale."""

from __future__ import annotations

from typing import Any

from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.residual.norm_statistics import norm_statistic
from ...metrics.residual.residual_stream import stream_lengths
from ..find_spot import some_word
from ..lesson_types import Ask, Notes, Seen, Spot, Station
from ..number_format import quoted, rough

SAME, MORE = 1.25, 3.0  # length ratios of "about as long", and "more"


def _stack(block: str) -> str:
    return "encoder" if block == "encoder" else "decoder"


def _find(trace: Trace, block: str) -> Spot:
    return Spot(block, row=some_word(trace, _stack(block)))


def _state(spot: Spot) -> dict[str, Any]:
    return {
        "stack": _stack(spot.map_name),
        "word": spot.row,
        "statistic": "input_norm",
        "site": "",
        "compare": "now",
    }


def growth(ratio: float) -> int:
    """Return the option of a growth: 0 shorter, 1 about as long, 2 up to 3 times, 3 longer."""
    bounds = (1 / SAME, SAME, MORE)
    return sum(ratio > bound for bound in bounds)


def _ask(seen: Seen) -> Ask:
    stack, row = _stack(seen.spot.map_name), seen.spot.row
    steps, lengths = stream_lengths(seen.clean, stack)
    first, last = float(lengths[0, row]), float(lengths[-1, row])
    _, before = norm_statistic(seen.clean, "input_norm", stack)
    _, after = norm_statistic(seen.clean, "output_norm", stack)
    word = quoted(seen.clean.words_of(stack).labels[row])
    return Ask(
        say(
            "The row of numbers of {word} has length {first} when it enters the first layer. How "
            "long is it after the last one?",
            word=word,
            first=f"{first:.1f}",
        ),
        (
            say("shorter"),
            say("about as long, within a quarter"),
            say("longer, up to three times"),
            say("more than three times as long"),
        ),
        growth(last / first),
        say(
            "{last}, which is {factor} times as much, after {steps} sums. Before the last norm the "
            "lengths of the words go from {least} to {most}; after it from {low} to {high}.",
            last=f"{last:.1f}",
            factor=rough(last / first),
            steps=len(steps) - 1,
            least=f"{before[-1].min():.1f}",
            most=f"{before[-1].max():.1f}",
            low=f"{after[-1].min():.1f}",
            high=f"{after[-1].max():.1f}",
        ),
        say(
            "Every sum can make it longer: after {count} of the {steps} sums its length is "
            "{length}.",
            count=len(steps) // 2,
            steps=len(steps) - 1,
            length=f"{lengths[len(steps) // 2, row]:.1f}",
        ),
    )


STATION = Station(
    name="norms",
    title=mark("Norms and the residual stream"),
    page="norms",
    minutes=6,
    aim=mark("Why layers add to a stream and do not replace it, and what a norm is for."),
    text=mark(
        "No [layer] replaces a word's numbers; it adds to them. So they travel on like a river "
        "that every layer flows into: the [residual stream]. Many sums can make a row of numbers "
        "very long. A [layer norm] brings it back to one scale: it takes the mean away and divides "
        "by the spread."
    ),
    do=mark("Choose a word and follow its length from layer to layer."),
    notes=Notes(
        say=mark(
            "Let the class norm the row 2, 4, 6, 8 by hand: mean 5, spread √5 = 2.24, so -1.34, "
            "-0.45, 0.45, 1.34. Then do the same with 20, 40, 60, 80: the result is the same."
        ),
        ask=mark("What would be lost if a layer replaced the numbers and did not add to them?"),
        beware=mark(
            "A long vector is not an important word. The norm takes length away before anyone "
            "reads it; what counts is the direction."
        ),
    ),
    maps=("encoder", "decoder"),
    find=_find,
    state=_state,
    ask=_ask,
)
