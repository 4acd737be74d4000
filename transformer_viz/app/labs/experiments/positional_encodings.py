"""Lab on positions: three tiny models (sinusoidal, learned, none) read shuffled words."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import numpy as np
import streamlit as st

from .... import views
from ....core.interventions import Intervention
from ....i18n import mark, say
from ....metrics.positions.positions import position_rows
from ....metrics.positions.shift_errors import shift_errors, similarity_by_distance
from ....views.charts.curves import Curve
from .. import jobs
from ..bench import Bench
from ..lab import Lab
from ..tiny_models import LABS, Tiny, reads_english, translations

WAYS = ("scaled-dot", "learned", "no-positions")
TITLES = (mark("sinusoidal"), mark("learned"), mark("none"))
TABLE = "table.encoder"
SAME = 1e-4  # smaller differences of ln p are rounding
END = re.compile(r"[.!?…]*$")


@dataclass(frozen=True, eq=False)
class Other:
    """A model before and after the words were shuffled.

    Attributes:
        first: The model and its run on the original sentence.
        text: Its translation of the shuffled words.
        before: Mean ln p of the first translation's tokens, given the original sentence.
        after: The same, given the shuffled words.
        largest: Largest absolute change of a token's ln p.
    """

    first: Tiny
    text: str
    before: float
    after: float
    largest: float

    @property
    def same(self) -> bool:
        """True if the shuffle changed neither the text nor a probability."""
        return self.text == self.first.text and self.largest < SAME


@dataclass(frozen=True, eq=False)
class PositionResult:
    """The three models (None: not bundled), and the shuffled sentence."""

    models: tuple[Other | None, ...]
    shuffled: str


def shuffled_words(text: str, seed: int) -> str:
    """Return the words of a text in another order; final punctuation stays at the end.

    Raises:
        ValueError: The text has fewer than two different words.
    """
    end = END.search(text.strip())
    assert end is not None
    words = text.strip()[: end.start()].split()
    if len(set(words)) < 2:
        raise ValueError(say("This sentence has no other order; give one with two words or more."))
    draw, mixed = random.Random(seed), list(words)
    while mixed == words:
        draw.shuffle(mixed)
    return " ".join(mixed) + end.group()


def experiment(bench: Bench) -> PositionResult:
    """Draw the shuffled sentence's translations, and charts of the position tables."""
    seed = bench.press("order", say("another order"))
    shuffled = shuffled_words(bench.scene.question.text, seed)
    firsts = translations(bench, WAYS, Intervention())
    found = PositionResult(
        tuple(None if tiny is None else _other(bench, tiny, shuffled) for tiny in firsts), shuffled
    )
    _texts(bench, found)
    _tables(bench, found)
    return found


def _other(bench: Bench, first: Tiny, shuffled: str) -> Other:
    text = bench.ask(LABS + first.name, jobs.translated, shuffled, 1, Intervention().to_json())[0]
    assert first.trace.target is not None and first.trace.produced is not None
    words = (shuffled, first.trace.target.ids, first.trace.produced.ids)
    after = bench.ask(LABS + first.name, jobs.chances, *words)
    before = np.log(first.trace.produced.probability.astype(np.float64))
    return Other(
        first,
        text,
        float(before.mean()),
        float(after.mean()),
        float(np.abs(after - before).max()),
    )


def _texts(bench: Bench, found: PositionResult) -> None:
    bench.tell(say("In another order: {sentence}", sentence=found.shuffled))
    rows = [
        (
            say(title),
            other.first.text,
            other.text,
            f"{np.exp(other.before):.3f}",
            f"{np.exp(other.after):.3f}",
            f"{other.largest:.2g}",
        )
        for other, title in zip(found.models, TITLES, strict=True)
        if other is not None
    ]
    bench.table(
        (
            say("positions"),
            say("translation of the sentence"),
            say("translation of the shuffled words"),
            say("p of its words"),
            say("shuffled"),
            say("largest change of ln p"),
        ),
        rows,
        texts=(1, 2),
    )
    bench.quiet(
        say(
            "p of its words: the geometric mean of the probabilities that the model gives to the "
            "words of its first translation, and gives them again when it reads the shuffled words."
        )
    )


def _tables(bench: Bench, found: PositionResult) -> None:
    """Draw wavelengths, the shift property, and similarity, for the position tables of this run."""
    tables = {
        say(title): position_rows(other.first.trace, TABLE)
        for other, title in zip(found.models, TITLES, strict=True)
        if other is not None and TABLE in other.first.trace.positions
    }
    waves = found.models[0]
    with st.container(key="pictures-places"):
        left, middle, right = st.columns(3)
        with left:
            if waves is not None:
                bench.chart(
                    "waves",
                    say("How long is the wave of each pair of dimensions?"),
                    lambda: views.wavelengths(waves.first.trace, TABLE, dark=bench.dark),
                )
        with middle:
            _shifts(bench, tables)
        with right:
            _alike(bench, tables)


def _shifts(bench: Bench, tables: dict[str, np.ndarray]) -> None:
    errors = {name: shift_errors(table) for name, table in tables.items()}
    bench.chart(
        "shifts",
        say("Is k words further always the same turn?"),
        lambda: views.curves(
            [Curve(name, np.arange(1, len(e) + 1), e) for name, e in errors.items()],
            say("k: words further"),
            say("largest miss of one turn"),
            say(
                "in shares of the table's largest number · logarithmic: equal steps up are equal "
                "factors · the rows of this sentence"
            ),
            log="y",
            dark=bench.dark,
        ),
    )


def _alike(bench: Bench, tables: dict[str, np.ndarray]) -> None:
    found = {name: similarity_by_distance(table) for name, table in tables.items()}
    bench.chart(
        "alike",
        say("How alike are two places?"),
        lambda: views.curves(
            [Curve(name, np.arange(len(s)), s) for name, s in found.items()],
            say("words apart"),
            say("mean cosine of their rows"),
            say("1: the same direction, 0: nothing in common · the rows of this sentence"),
            most=1.02,
            least=min(0.0, *(float(s.min()) for s in found.values())),
            dark=bench.dark,
        ),
    )


def answer(found: PositionResult) -> int | None:
    """Return the option for the set of models that noticed nothing."""
    same = [other.same if other else None for other in found.models]
    known: dict[tuple[bool | None, ...], int] = {
        (True, True, True): 0,
        (False, False, True): 1,
        (False, False, False): 2,
    }
    return known.get(tuple(same))


def reveal(bench: Bench, found: PositionResult) -> None:
    """Draw the explanation of a model without positions."""
    without = found.models[2]
    if without is not None and without.same:
        bench.tell(
            say(
                "Attention adds up what it finds; a sum has no order. Without positions the "
                "encoder gives every word the same vector wherever it stands, and the decoder gets "
                "the same collection of vectors: no ln p moved by more than {largest:.1g}, which "
                "is rounding of the same sums in another order.",
                largest=without.largest,
            )
        )
    elif without is not None:
        bench.tell(
            say(
                "The model without positions should have noticed nothing, but an ln p moved by "
                "{largest:.2g}: look whether a word was cut into other pieces.",
                largest=without.largest,
            )
        )
    bench.tell(
        say(
            "The sinusoidal table turns every pair of dimensions at a pace of its own, so k words "
            "further is one fixed turn, and a place k words away looks alike wherever it is. "
            "Nobody asked the learned table for that: it has what the training data rewarded."
        )
    )
    scores = [
        say("{name}: BLEU {bleu}", name=say(title), bleu=other.first.score)
        for other, title in zip(found.models, TITLES, strict=True)
        if other is not None and other.first.score
    ]
    if scores:
        bench.tell(say("On the whole test file: {scores}.", scores=" · ".join(scores)))


PLACES = Lab(
    name="positions",
    title=mark("Positions"),
    question=mark(
        "Three tiny models are told in different ways where a word stands: by sines, by a table "
        "that they learned, or not at all. The words of the sentence are shuffled. Who notices?"
    ),
    options=(
        mark("None of them: the words are the same"),
        mark("Both that are told, but not the one without positions"),
        mark("All three"),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=reads_english,
)
