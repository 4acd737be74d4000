"""Lab on layer norm and batch norm: the scene's sentence in two batches, normalized both ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from .... import views
from ....core.trace_parts import Tokens
from ....i18n import mark, numeral, say
from ....metrics.residual.batch_norm import batch_normed, layer_normed
from ....views.charts.curves import Curve
from ...session.scene import Scene
from ...ui import layout
from .. import jobs
from ..bench import Bench
from ..lab import Lab

#: Other sentences of the two batches, in English as the bundled models read it.
OTHERS = {
    "first": ("I love my dog.", "Where is the train station?", "She reads a book every day."),
    "second": (
        "We can't go home before it stops raining, because nobody brought an umbrella.",
        "My sister bought a new red car yesterday.",
        "How much does this cost?",
    ),
}
DIMENSIONS = 24  # numbers of a vector that are drawn
NOTICED = 1e-3  # smallest change of a normalized number that is not rounding


@dataclass(frozen=True, eq=False)
class NormResult:
    """The scene's sentence in two batches, before and after both norms.

    Attributes:
        tokens: Tokens of the sentence.
        word: Index of the chosen token.
        rows: Input of the norm, ``[batch, token, dimension]``.
        layer: ``rows`` after layer norm.
        batch: ``rows`` after batch norm.
        counted: Rows in the statistics of each batch.
    """

    tokens: Tokens
    word: int
    rows: np.ndarray
    layer: np.ndarray
    batch: np.ndarray
    counted: tuple[int, int]

    @property
    def changes(self) -> tuple[float, float]:
        """Largest change between the batches, by layer norm and by batch norm."""
        layer, batch = (float(np.abs(made[0] - made[1]).max()) for made in (self.layer, self.batch))
        return layer, batch


def lacks(scene: Scene) -> str | None:
    """Return a reason if the model reads no text, since a batch consists of sentences."""
    if scene.kind.takes == "text" and scene.kind.spelled:
        return None
    return say(
        "This lab puts the class's sentence among other sentences, and the chosen model reads "
        "none. Choose a model of text, such as en-de."
    )


def experiment(bench: Bench) -> NormResult:
    """Draw the controls (word, layer, padding) and both charts."""
    scene, stack = bench.scene, bench.scene.kind.stacks[0]
    layers = scene.before.layers(stack)
    tokens = scene.before.source
    with layout.row("bottom", gap="medium"):
        words = {str(n): f"{n} {label}" for n, label in enumerate(tokens.labels)}
        word = int(bench.pick("word", say("word"), words, "0"))
        places = {str(n): say("before layer {n}", n=f"L{n}") for n in range(layers)}
        layer = int(bench.pick("layer", say("where in the model"), places, str(layers - 1)))
        padded = scene.kind.padded and bench.switch("padding", say("count padding too"))
    found = _measure(bench, tokens, layer, word, padded)
    with st.container(key="pictures-norm-lab"):
        left, right = st.columns(2)
        with left:
            _numbers(bench, found)
        with right:
            _changes(bench, found)
    return found


def _measure(bench: Bench, tokens: Tokens, layer: int, word: int, padded: bool) -> NormResult:
    question = bench.scene.question
    batches = [
        bench.ask(question.model, jobs.streams, (question.text, *others), layer)
        for others in OTHERS.values()
    ]
    count = len(tokens)
    rows = np.stack([batch[0].rows[:count] for batch in batches])
    every = [[one.rows if padded else one.rows[: one.tokens] for one in batch] for batch in batches]
    first, second = (sum(map(len, batch)) for batch in every)
    return NormResult(
        tokens,
        word,
        rows,
        np.stack([layer_normed(own) for own in rows]),
        np.stack([batch_normed(own, batch) for own, batch in zip(rows, every, strict=True)]),
        (first, second),
    )


def _numbers(bench: Bench, found: NormResult) -> None:
    word, shown = found.word, min(DIMENSIONS, found.rows.shape[-1])
    places = np.arange(shown)
    made = (
        (say("layer norm, in both batches"), found.layer[0]),
        (say("batch norm, first batch"), found.batch[0]),
        (say("batch norm, second batch"), found.batch[1]),
    )
    bench.chart(
        "numbers",
        say("What does one word's vector become?"),
        lambda: views.curves(
            [Curve(name, places, table[word, :shown]) for name, table in made],
            say("dimension of the vector"),
            say("number after the norm"),
            say(
                "“{word}”: the first {shown} of {all} numbers, without gain and bias",
                word=found.tokens.labels[word],
                shown=shown,
                all=found.rows.shape[-1],
            ),
            dark=bench.dark,
        ),
    )


def _changes(bench: Bench, found: NormResult) -> None:
    places = np.arange(len(found.tokens))
    made = ((say("layer norm"), found.layer), (say("batch norm"), found.batch))
    bench.chart(
        "changes",
        say("How far do a word's numbers move when the batch is another one?"),
        lambda: views.curves(
            [
                Curve(name, places, np.abs(both[0] - both[1]).max(axis=1), marked=found.word)
                for name, both in made
            ],
            "",
            say("largest change of a number"),
            say(
                "statistics over {first} words in the first batch, {second} in the second",
                first=found.counted[0],
                second=found.counted[1],
            ),
            names=found.tokens.labels,
            least=0,
            dark=bench.dark,
        ),
    )


def answer(found: NormResult) -> int:
    """Return the option of the norms under which a number changed by more than rounding."""
    layer, batch = (change > NOTICED for change in found.changes)
    return {(True, False): 0, (False, True): 1, (True, True): 2, (False, False): 3}[layer, batch]


def reveal(bench: Bench, found: NormResult) -> None:
    """Draw the explanation of the statistics of each norm."""
    with st.container(key="pictures-norm-why"):
        left, right = st.columns(2)
        with left:
            _why(bench, found)
        with right:
            _word(bench, found)
    bench.quiet(
        say(
            "The model itself ran as it was trained, one sentence at a time, filled up with "
            "masked padding to the longest of the batch; both norms are computed on the vectors "
            "that it made. No model was trained with batch norm here."
        )
    )


def _why(bench: Bench, found: NormResult) -> None:
    layer, batch = found.changes
    bench.tell(
        say(
            "From one batch to the other, layer norm moved a number by at most {layer:.1g} and "
            "batch norm by up to {batch:.2f}.",
            layer=layer,
            batch=batch,
        )
    )
    bench.tell(
        say(
            "Layer norm asks one word: mean and [spread] of its own {width} numbers. Batch norm "
            "asks everyone: for each number, mean and spread over all words of all sentences in "
            "the batch. So a translation would depend on who else is being translated, and a "
            "sentence alone would be averaged over its own few words.",
            width=found.rows.shape[-1],
        )
    )


def _word(bench: Bench, found: NormResult) -> None:
    """Draw a table: mean and spread of the chosen word's numbers."""
    made = (
        (say("as it comes"), found.rows[0]),
        (say("layer norm"), found.layer[0]),
        (say("batch norm, first batch"), found.batch[0]),
        (say("batch norm, second batch"), found.batch[1]),
    )
    bench.table(
        (say("“{word}”", word=found.tokens.labels[found.word]), say("mean"), say("spread")),
        [
            (name, numeral(table[found.word].mean(), ".3f"), f"{table[found.word].std():.3f}")
            for name, table in made
        ],
    )


NORMS = Lab(
    name="norms",
    title=mark("Layer norm, batch norm"),
    question=mark(
        "The same sentence is normalised twice, each time in a batch with other sentences. "
        "With which norm do its numbers depend on the neighbours?"
    ),
    options=(
        mark("Only with layer norm"),
        mark("Only with batch norm"),
        mark("With both"),
        mark("With neither"),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=lacks,
)
