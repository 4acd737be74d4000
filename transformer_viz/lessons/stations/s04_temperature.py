"""Station 4: score scaling and temperature."""

from __future__ import annotations

import math
from typing import Any

from ...core.interventions import Intervention, Temperature
from ...i18n import mark, say
from ...metrics.attention.map_cells import axes
from ..find_spot import telling
from ..lesson_types import Ask, Notes, Seen, Spot, Station
from ..number_format import quoted, rough, share

COOL = 4.0  # divisor of scores if the model itself does not divide them
SAME = 0.01  # a weight that changes by less counts as unchanged


def _state(spot: Spot) -> dict[str, Any]:
    at = {"block": spot.map_name, "layer": spot.layer, "head": spot.head, "token": spot.row}
    return at | {"scope": "head"}


def divisor(seen: Seen) -> float | None:
    """Return the model's divisor of scores, such as √32; None if it does not divide."""
    scale = None if seen.vectors is None else seen.vectors.scale
    return 1 / scale if scale and 0 < scale < 0.99 else None


def _experiments(seen: Seen) -> tuple[Intervention, ...]:
    """Return an edit that undoes the division, or adds one if there is none."""
    root = divisor(seen)
    value = 1 / root if root else COOL
    return (Intervention((Temperature(value=value, **seen.spot.selectors),)),)


def _ask(seen: Seen) -> Ask:
    spot, (other,) = seen.spot, seen.changed
    row = (spot.head, spot.row)
    before = float(seen.clean.block(spot.map_name, spot.layer).weights[row].max())
    after = float(other.block(spot.map_name, spot.layer).weights[row].max())
    rows, _ = axes(seen.clean, seen.clean.block(spot.map_name, spot.layer))
    word, root = quoted(rows.labels[spot.row]), divisor(seen)
    told = {"word": word, "head": spot.label, "before": share(before)}
    change = after - before
    right = 0 if change > SAME else 2 if change < -SAME else 1
    return Ask(
        _question(seen, root, told),
        (say("it grows"), say("it stays as it is"), say("it shrinks")),
        right,
        _why(root, before, after, right),
        _hint(root, before, right),
    )


def _question(seen: Seen, root: float | None, told: dict[str, str]) -> str:
    if root is None:
        return say(
            "This model does not divide its scores. Suppose those of head {head} were divided by "
            "4. What becomes of the largest weight in the row of {word}, now {before}?",
            **told,
        )
    width = seen.vectors.q.shape[-1] if seen.vectors and seen.vectors.q is not None else 0
    if width and math.isclose(root, math.sqrt(width), rel_tol=1e-4):
        return say(
            "A key of head {head} has {width} numbers, so its scores are divided by √{width} = "
            "{root}. Suppose nobody divides. What becomes of the largest weight in the row of "
            "{word}, now {before}?",
            width=width,
            root=f"{root:.2f}",
            **told,
        )
    return say(
        "The scores of head {head} are divided by {root}. Suppose nobody divides. What becomes of "
        "the largest weight in the row of {word}, now {before}?",
        root=f"{root:.2f}",
        **told,
    )


def _hint(root: float | None, before: float, right: int) -> str:
    if right == 1:
        return say(
            "See how much room there is: the largest weight has {before} of 1 already, and the "
            "others have {rest} together.",
            before=share(before),
            rest=share(1 - before),
        )
    if root is None:
        return say(
            "Divided by 4 the scores lie four times as near to each other; think of what the "
            "softmax makes of scores that are alike."
        )
    return say(
        "Without the division the scores lie {root} times as far apart; think of what the softmax "
        "makes of a score that is far above the others.",
        root=rough(root),
    )


def _why(root: float | None, before: float, after: float, right: int) -> str:
    told = {"before": share(before), "after": share(after)}
    if right == 1:
        return say(
            "From {before} to {after}: hardly anything. The scores of this row lie so far apart, "
            "or so near, that dividing them changes little.",
            **told,
        )
    if root is None:
        return say(
            "From {before} to {after}. Divided scores lie closer together, and the softmax shares "
            "more evenly: this is what a temperature above 1 does.",
            **told,
        )
    return say(
        "From {before} to {after}. Without the division all differences between scores are "
        "{root} times as large, and the softmax nearly picks one word. The slider shows it at "
        "temperature {temperature}.",
        root=rough(root),
        temperature=f"{1 / root:.2f}",
        **told,
    )


STATION = Station(
    name="temperature",
    title=mark("Why divide? Temperature"),
    page="explore",
    minutes=6,
    aim=mark("Why scores are divided by √dₖ, and how temperature sharpens or blurs a row."),
    text=mark(
        "A score is a sum of many products, and with more numbers it gets larger. Large scores "
        "make the [softmax] give nearly all to one word, and such a model learns badly. So scores "
        "are divided by √[dₖ|d_k], where dₖ is how many numbers a [key] has. The [temperature] "
        "slider divides once more: below 1 it sharpens a row, above 1 it blurs it."
    ),
    do=mark("Predict first. Then drag the temperature of this head to both ends."),
    notes=Notes(
        say=mark(
            "Play it as theatre: three pupils hold up the three best scores; divide them all by 5 "
            "and ask who still wins, and by how much."
        ),
        ask=mark("Can a temperature ever change which word gets the largest weight?"),
        beware=mark(
            "Temperature never changes the order of a row. And this temperature is inside the "
            "model's attention; the one known from chat programs acts on the choice of the next "
            "word."
        ),
    ),
    maps=("encoder", "decoder"),
    find=telling,
    state=_state,
    ask=_ask,
    experiments=_experiments,
    vectors=True,
)
