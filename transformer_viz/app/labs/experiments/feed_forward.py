"""Lab on the feed-forward network: it processes each token independently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .... import views
from ....i18n import mark, say
from ....views.charts.curves import Curve
from ...session.scene import Scene
from ...ui import layout
from ..bench import Bench
from ..lab import Lab

if TYPE_CHECKING:
    from ....checkpoints import Model
    from ....inference.experiments.position_wise import PositionWise

ROUNDING = 1e-6  # relative to the largest change; less is rounding


@dataclass(frozen=True, eq=False)
class FeedForwardResult:
    """Measurements (``experiments.position_wise``), and the changed token's index and name."""

    measured: PositionWise
    token: int
    word: str

    @property
    def moved(self) -> int:
        """Number of tokens whose feed-forward output changed."""
        return int((self.measured.moved > ROUNDING).sum())


def experiment(bench: Bench) -> FeedForwardResult:
    scene = bench.scene
    stack = scene.kind.stacks[0]
    labels = scene.before.words_of(stack).labels
    layers = scene.before.layers(stack)
    with layout.row("bottom"):
        named = {str(n): f"{n} {label}" for n, label in enumerate(labels)}
        token = int(bench.pick("word", say("change this word"), named, str(len(labels) // 2)))
        layer = int(
            bench.pick("layer", say("in layer"), {str(n): f"L{n}" for n in range(layers)}, "0")
        )
        seed = bench.press("order", say("another order"))
    words = (scene.question.text, layer, token, seed)
    measured: PositionWise = bench.ask(scene.question.model, _measured, *words)
    _chart(bench, labels, measured)
    _table(bench, labels, measured)
    return FeedForwardResult(measured, token, labels[token])


def _measured(model: Model, text: str, layer: int, token: int, seed: int) -> PositionWise:
    from ....inference.experiments.position_wise import position_wise

    return position_wise(model, text, layer, token, seed)


def _chart(bench: Bench, labels: tuple[str, ...], found: PositionWise) -> None:
    places = np.arange(len(labels))
    lines = [
        Curve(say("feed-forward"), places, found.moved, bare=True),
        Curve(say("self-attention"), places, found.mixed, bare=True),
    ]
    caption = say(
        "How far each word's output moves when one word's vector is changed by its own length, as "
        "a part of the largest move."
    )
    bench.chart(
        "moved",
        say("Whose output moves?"),
        lambda: views.curves(
            lines,
            say("word"),
            say("move"),
            caption,
            names=labels,
            least=-0.03,
            most=1.03,
            dark=bench.dark,
        ),
    )


def _table(bench: Bench, labels: tuple[str, ...], found: PositionWise) -> None:
    order = " ".join(labels[n] for n in found.order)
    rows = [
        (say("words in another order, outputs in that order"), f"{found.permuted:.2g}"),
        (say("two convolutions of kernel 1 with the same weights"), f"{found.convolved:.2g}"),
        (say("for comparison: the largest number of the output"), f"{found.largest:.4g}"),
    ]
    bench.table((say("the feed-forward's outputs against ..."), say("largest difference")), rows)
    bench.quiet(say("The other order: {order}", order=order))


def answer(found: FeedForwardResult) -> int:
    if found.moved == 1:
        return 0
    return 2 if found.moved == len(found.measured.moved) else 1


def reveal(bench: Bench, found: FeedForwardResult) -> None:
    mixed = int((found.measured.mixed > ROUNDING).sum())
    bench.tell(
        say(
            "“{word}” was changed: in the [feed-forward] network {moved} of {count} outputs moved, "
            "in self-attention {mixed}.",
            word=found.word,
            moved=found.moved,
            mixed=mixed,
            count=len(found.measured.moved),
        ),
        say(
            "The same small network reads each word's vector by itself. That is why the order of "
            "the words is nothing to it, and why it equals two convolutions that are one word wide "
            "(Vaswani et al. 2017, section 3.3). Only attention lets words hear of each other."
        ),
    )
    bench.quiet(
        say(
            "Computed in float32: differences a million times smaller than the numbers themselves "
            "are rounding, since sums are added up in another order."
        )
    )


def _lacks(scene: Scene) -> str | None:
    if scene.kind.takes == "text":
        return None
    return say("This lab changes a word's vector inside a layer; choose a model that reads text.")


POSITION_WISE = Lab(
    name="position-wise",
    title=mark("Position-wise"),
    question=mark("One word's vector is changed. Whose output of the feed-forward network moves?"),
    options=(
        mark("That word's alone."),
        mark("That word's and its neighbours'."),
        mark("Every word's."),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=_lacks,
)
