"""Lab on the factor 1/√dₖ of q·k, measured on random vectors and on the model's heads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from .... import views
from ....core.numerics import softmax
from ....core.sites import called
from ....i18n import mark, say
from ....metrics.attention.score_variance import (
    ROWS,
    HeadSpread,
    Spread,
    random_scores,
    random_spread,
)
from ....views.charts.curves import Curve
from ...ui import layout
from .. import jobs
from ..bench import Bench
from ..lab import Lab

WIDTHS = (4, 8, 16, 32, 64, 128, 256)
SOFT = {
    "entropy": mark("entropy"),
    "largest": mark("largest weight"),
    "gradient": mark("gradient"),
}
UNITS = {
    "entropy": mark("entropy of a row, in bits"),
    "largest": mark("largest weight of a row"),
    "gradient": mark("norm of the softmax's Jacobian"),
}
SHARP = 0.5  # of the entropy at the smallest width; below is sharper, above the inverse flatter


@dataclass(frozen=True)
class ScalingResult:
    """Variance of q·k, and its softmax, for random vectors and for the model's heads.

    Attributes:
        random: Random vectors by width.
        heads: The model's heads; empty if they cannot be measured.
        why: The reason in that case.
        keys: Number of keys of a row.
    """

    random: tuple[Spread, ...]
    heads: tuple[HeadSpread, ...]
    why: str
    keys: int


def experiment(bench: Bench) -> ScalingResult:
    """Draw the charts of random vectors at several widths, and of the model's heads."""
    with layout.row("bottom", gap="medium"):
        width = int(bench.slide("width", say("dₖ: numbers in q and in k"), WIDTHS, 64))
        names = {name: say(title) for name, title in SOFT.items()}
        shown = bench.choose("show", say("what of the softmax"), names, "entropy")
        seed = bench.press("draw", say("draw other vectors"))
    found = _measure(bench, seed)
    with st.container(key="pictures-scale"):
        left, middle, right = st.columns(3)
        with left:
            _variances(bench, found, WIDTHS.index(width))
        with middle:
            _row(bench, found, width, seed)
        with right:
            _softness(bench, found, shown, WIDTHS.index(width))
    return found


def _measure(bench: Bench, seed: int) -> ScalingResult:
    scene = bench.scene
    before = scene.before
    keys = len(before.source)
    random = tuple(random_spread(width, keys, seed) for width in WIDTHS)
    target = before.target.ids if before.target is not None and before.target.ids else None
    picture = scene.engine.shelf[scene.question.model].pictures.get(scene.question.picture)
    words = (scene.question, picture, target)
    try:
        heads = bench.ask(scene.question.model, jobs.spreads, *words)
    except LookupError as error:
        return ScalingResult(random, (), str(error.args[0]), keys)
    return ScalingResult(random, heads, "", keys)


def _variances(bench: Bench, found: ScalingResult, at: int) -> None:
    lines = [
        Curve(say("random vectors"), WIDTHS, [s.variance for s in found.random], marked=at),
        Curve(say("theory: dₖ"), WIDTHS, WIDTHS, dashed=True),
    ]
    if found.heads:
        own = [(one.spread.d_k, one.spread.variance) for one in found.heads]
        widths, variances = zip(*own, strict=True)
        lines.append(Curve(say("heads of this model"), widths, variances, bare=True))
    bench.chart(
        "variance",
        say("How far apart do the products q·k lie?"),
        lambda: views.curves(
            lines,
            "dₖ",
            say("variance of q·k"),
            say(
                "random: independent numbers with mean 0 and variance 1 · both axes: equal steps "
                "are equal factors"
            ),
            log="xy",
            dark=bench.dark,
        ),
    )


def _row(bench: Bench, found: ScalingResult, width: int, seed: int) -> None:
    """Draw a random query's weights over as many random keys as the sentence has tokens."""
    scores = random_scores(width, found.keys, seed, rows=1)[0]
    order = np.argsort(scores)[::-1]
    places = list(range(1, found.keys + 1))
    bench.chart(
        "row",
        say("One row of random scores after the softmax"),
        lambda: views.curves(
            [
                Curve(say("q·k as it is"), places, softmax(scores)[order]),
                Curve(say("q·k / √dₖ"), places, softmax(scores / width**0.5)[order]),
            ],
            say("keys, by weight"),
            say("weight"),
            say(
                "dₖ = {width}, {keys} keys: as many as the sentence has tokens",
                width=width,
                keys=found.keys,
            ),
            least=0,
            most=1,
            dark=bench.dark,
        ),
    )


def _softness(bench: Bench, found: ScalingResult, shown: str, at: int) -> None:
    lines = [
        Curve(name, WIDTHS, [getattr(getattr(s, side), shown) for s in found.random], marked=at)
        for side, name in (("plain", say("q·k as it is")), ("scaled", say("q·k / √dₖ")))
    ]
    bench.chart(
        "softness",
        say("And for every dₖ?"),
        lambda: views.curves(
            lines,
            "dₖ",
            say(UNITS[shown]),
            say("means over {rows} random rows", rows=ROWS),
            log="x",
            least=0,
            dark=bench.dark,
        ),
    )


def answer(found: ScalingResult) -> int:
    """Return the option for the change of the unscaled entropy, smallest to largest width."""
    first, last = (s.plain.entropy for s in (found.random[0], found.random[-1]))
    if last < SHARP * first:
        return 1
    return 2 if last > first / SHARP else 0


def reveal(bench: Bench, found: ScalingResult) -> None:
    """Draw the explanation, and the same numbers for the model's heads."""
    with st.container(key="pictures-scale-why"):
        left, right = st.columns(2)
        with left:
            _why(bench, found)
        with right:
            if found.heads:
                _heads(bench, found)
            else:
                bench.tell(found.why)


def _why(bench: Bench, found: ScalingResult) -> None:
    first, last = found.random[0], found.random[-1]
    bench.tell(
        say(
            "The product of two random vectors is a sum of dₖ terms, each of [variance] 1, so its "
            "variance is dₖ: here {few:.1f} at dₖ = {narrow} and {many:.1f} at {wide}.",
            few=first.variance,
            narrow=first.d_k,
            many=last.variance,
            wide=last.d_k,
        )
    )
    bench.tell(
        say(
            "The [softmax] turns differences into ratios: a score that is larger by 10 weighs "
            "22,000 times as much. So one key takes nearly all: the largest weight grows from "
            "{few:.2f} to {many:.2f}. Such a softmax hardly answers to its scores any more: its "
            "[gradient] shrinks from {before:.3f} to {after:.3f}, and there is less to learn from.",
            few=first.plain.largest,
            many=last.plain.largest,
            before=first.plain.gradient,
            after=last.plain.gradient,
        )
    )
    bench.tell(
        say(
            "Divided by √dₖ the variance is 1 for every dₖ, and the gradient stays where it is: "
            "{after:.3f} at dₖ = {wide} (Vaswani et al. 2017, section 3.2.1).",
            after=last.scaled.gradient,
            wide=last.d_k,
        )
    )


def _heads(bench: Bench, found: ScalingResult) -> None:
    """Draw a table of the heads of the opened layer."""
    place = bench.scene.place
    here = [h for h in found.heads if (h.block, h.layer) == (place.map_name, place.layer)]
    bench.tell(
        say(
            "A trained head is free to make its q and k longer or shorter, so its variance need "
            "not be dₖ. These are the heads of {where} on this sentence; “undivided” is the same "
            "q·k without the factor {scale:.4g} that this model multiplies it with.",
            where=f"{called(place.map_name)} L{place.layer}",
            scale=here[0].scale,
        )
    )
    bench.table(
        (
            say("head"),
            say("variance of q·k"),
            say("entropy (bits)"),
            say("undivided"),
            say("largest weight"),
            say("undivided"),
            say("gradient"),
            say("undivided"),
        ),
        [_cells(head) for head in here],
        marked=place.head,
    )
    bench.quiet(
        say(
            "Only this head's own softmax is computed without the factor; the rest of the model "
            "ran as it was trained. Masked cells are left out."
        )
    )


def _cells(found: HeadSpread) -> tuple[str, ...]:
    spread = found.spread
    pairs = (
        f"{getattr(side, name):.3f}" for name in SOFT for side in (spread.scaled, spread.plain)
    )
    return (f"L{found.layer} H{found.head}", f"{spread.variance:.1f}", *pairs)


SCALE = Lab(
    name="scale",
    title=mark("Why √dₖ?"),
    question=mark(
        "A score is a sum of dₖ products. What happens to the softmax when dₖ grows from 4 to "
        "256 and nobody divides by √dₖ?"
    ),
    options=(
        mark("Nothing much: pluses and minuses cancel each other out"),
        mark("It gets sharper: one key takes nearly all the weight"),
        mark("It gets flatter: all keys come to weigh the same"),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
)
