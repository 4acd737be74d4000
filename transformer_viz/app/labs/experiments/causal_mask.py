"""Lab on the causal mask: information leaked without it, and its use to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from .... import views
from ....core.interventions import Causal, Intervention
from ....core.trace import Trace
from ....i18n import mark, say
from ....metrics.output.surprisal import later, weight_on
from ....views.charts.curves import Curve
from ...session.scene import Scene
from .. import held_runs
from ..bench import Bench
from ..lab import Lab
from ..whole_runs import too_long

if TYPE_CHECKING:
    from ....checkpoints import Model

SOME = 0.05  # bits per token; smaller changes count as none
LEFT_OFF = Intervention((Causal(on=False, stack="decoder"),))


@dataclass(frozen=True, eq=False)
class Lifted:
    """Effects of removing the causal mask.

    Attributes:
        before: Bits of each fixed token with the mask.
        after: Bits without it.
        ahead: Mean weight on later tokens without it.
        place: Index of the replaced token.
        noticed: Change of each row's prediction when that token is replaced, with and without the
            mask.
        texts: Generated text with and without it.
    """

    before: np.ndarray
    after: np.ndarray
    ahead: float
    place: int
    noticed: tuple[np.ndarray, np.ndarray]
    texts: tuple[str, str]

    @property
    def per_word(self) -> float:
        return float((self.after - self.before).mean())


def lift(bench: Bench) -> Lifted:
    scene = bench.scene
    target = scene.before.words_of("decoder")
    count = len(target)
    names = {str(n): f"{n} {target.labels[n]}" for n in range(1, count)}
    before, after = held_runs.costs(
        bench, (Intervention(), LEFT_OFF), say("Running the changed model ...")
    )
    texts = held_runs.texts(bench, (Intervention(), LEFT_OFF), say("Translating ..."))
    produced = scene.before.produced
    assert produced is not None
    place = int(bench.pick("place", say("exchange this word"), names, str(count - 1)))
    left, right = st.columns(2)
    with left:
        _probabilities(bench, produced.labels, before, after)
    with right:
        noticed = _leak(bench, target.ids, place, True), _leak(bench, target.ids, place, False)
        _noticed(bench, produced.labels, noticed)
    _written(bench, texts[0], texts[1], say("causal mask off"))
    ahead = _ahead(bench.whole("decoder", under=LEFT_OFF))
    return Lifted(before, after[: len(before)], ahead, place, noticed, (texts[0], texts[1]))


def _leak(bench: Bench, target: Sequence[int], place: int, causal: bool) -> np.ndarray:
    question = bench.scene.question
    words = (question.text, tuple(target), place, causal)
    found: np.ndarray = bench.ask(question.model, _leaked, *words)
    return found


def _leaked(
    model: Model, source: str, target: tuple[int, ...], place: int, causal: bool
) -> np.ndarray:
    from ....inference.experiments.mask_leak import leak

    return leak(model, source, target, place, causal)


def _ahead(trace: Trace) -> float:
    """Return the mean share of weight on later tokens, over all heads and rows."""
    blocks = trace.blocks("decoder")
    parts = [weight_on(b.weights, later(b.weights.shape[1])) for b in blocks]
    return float(np.concatenate(parts).mean())


def _probabilities(
    bench: Bench, labels: Sequence[str], before: np.ndarray, after: np.ndarray
) -> None:
    places = np.arange(len(before))
    lines = [
        Curve(say("clean run"), places, 2.0**-before, bare=True),
        Curve(say("changed run"), places, 2.0 ** -after[: len(before)], bare=True),
    ]
    caption = say("Probability of each held word; both runs are asked about the same words.")
    bench.chart(
        "words",
        say("How probable are the held words?"),
        lambda: views.curves(
            lines,
            say("held word"),
            say("probability"),
            caption,
            names=labels,
            least=-0.03,
            most=1.03,
            dark=bench.dark,
        ),
    )


def _noticed(bench: Bench, labels: Sequence[str], found: Sequence[np.ndarray]) -> None:
    lines = [
        Curve(name, np.arange(len(rows)), rows, bare=True)
        for name, rows in zip((say("mask on"), say("mask off")), found, strict=True)
    ]
    bench.chart(
        "noticed",
        say("Who notices that a later word was exchanged?"),
        lambda: views.curves(
            lines,
            say("word that is predicted"),
            say("part of its probability that moved"),
            say("0: the prediction is the same to the last digit; 1: nothing of it is left."),
            names=labels,
            least=-0.03,
            most=1.03,
            dark=bench.dark,
        ),
    )


def _written(bench: Bench, before: str, after: str, change: str) -> None:
    rows = [(say("clean run"), held_runs.shown(before)), (change, held_runs.shown(after))]
    bench.table((say("run"), say("the model writes by itself")), rows, texts=(1,))


def lifted(found: Lifted) -> int:
    if abs(found.per_word) < SOME:
        return 1
    return 0 if found.per_word < 0 else 2


def explain_lift(bench: Bench, found: Lifted) -> None:
    was, now = (float(2 ** -part.mean()) for part in (found.before, found.after))
    on, off = (float(rows[: found.place].max(initial=0)) for rows in found.noticed)
    bench.tell(
        say(
            "The answer leaks: without the mask {part:.0%} of the decoder's weight lies on later "
            "words, and rows before the exchanged word now notice the exchange (up to {off:.2f}; "
            "with the mask {on:.2f}).",
            part=found.ahead,
            off=off,
            on=on,
        ),
        say(
            "A held word's probability (geometric mean) goes from {was:.2f} to {now:.2f}.",
            was=was,
            now=now,
        ),
    )
    bench.tell(_why_lifted(found))
    bench.quiet(
        say(
            "While the model writes by itself, the newest row has no later word to look at; only "
            "the rows before it see more than they did. Each step was computed anew, without a "
            "cache."
        )
    )


def _why_lifted(found: Lifted) -> str:
    if lifted(found) == 2:
        return say(
            "Yet the words become less probable. This model was trained with the mask, so it never "
            "learned to use what stands ahead, and numbers that it never saw there disturb it. "
            "Trained without the mask it could simply copy the next word, and "
            "that helps nobody who has yet to write it (Vaswani et al. 2017, section 3.2.3)."
        )
    return say(
        "The held pass can see what it is asked for, so these probabilities tell nothing about how "
        "well the model writes: then there is no next word to copy. That is why the mask is there "
        "(Vaswani et al. 2017, section 3.2.3)."
    )


def _lacks(scene: Scene) -> str | None:
    return held_runs.speechless(scene) or too_long(scene, "decoder")


MASKS = Lab(
    name="masks",
    title=mark("Causal mask"),
    question=mark("Without the causal mask every word sees the ones after it. What happens?"),
    options=(
        mark("The held words become more probable: the answer can be seen."),
        mark("Their probabilities hardly change."),
        mark("They become less probable, although the answer can be seen."),
    ),
    experiment=lift,
    answer=lifted,
    reveal=explain_lift,
    lacks=_lacks,
)
