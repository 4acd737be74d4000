"""Station 10: limits of attention as an explanation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.interventions import Intervention, ScaleHead
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.attention.map_cells import axes
from ...metrics.output.pronouns import pronoun_row
from ..find_spot import of_it, telling
from ..lesson_types import Ask, Hidden, Notes, Seen, Spot, Station
from ..number_format import quoted, rough, share

BOUNDS = (0.1, 0.8, 1.25)  # of the new probability in shares of the old one


def _state(spot: Spot) -> dict[str, Any]:
    at = {"block": spot.map_name, "layer": spot.layer, "head": spot.head, "token": spot.row}
    return at | {"scope": "head"}


def find(trace: Trace, block: str) -> Spot:
    """Return the head whose "it" attends to a noun, if any; else another clear link.

    Raises:
        NotHere: No two ordinary words attend to each other.
    """
    return of_it(trace, block) or telling(trace, block)


def _experiments(seen: Seen) -> tuple[Intervention, ...]:
    return (Intervention((ScaleHead(value=0.0, **seen.spot.selectors),)),)


def log_probability(trace: Trace) -> float:
    """Return the logarithm of the joint probability of a run's target tokens."""
    assert trace.produced is not None
    chances = trace.produced.probability.astype(np.float64)
    return float(np.log(np.maximum(chances, 1e-300)).sum())


def hides(trace: Trace) -> int:
    """Return the row to measure while words are hidden: the pronoun's, else the longest word's."""
    row = pronoun_row(trace)
    if row is not None:
        return row
    assert trace.produced is not None
    lengths = [0 if label.startswith("<") else len(label) for label in trace.produced.labels]
    return lengths.index(max(lengths))


def _ask(seen: Seen) -> Ask:
    asked = _of_a_head(seen)
    if seen.hidden is None:
        return asked
    return replace(asked, why=f"{asked.why} {_deletion(seen.hidden)}", row=hides(seen.clean))


def _deletion(hidden: Hidden) -> str:
    """Return the same test for words, measured on this sentence."""
    nats = {name: f"{hidden.losses[name]:.2f}" for name in ("weights", "removal", "random")}
    return say(
        "Words can be tested likewise: {word} loses {weights} nats without the {count} source "
        "words that the raw weights name first, {removal} without the {count} whose removal costs "
        "most one by one, {random} without {count} by chance.",
        word=quoted(hidden.word),
        count=hidden.count,
        **nats,
    )


def _of_a_head(seen: Seen) -> Ask:
    if of_it(seen.clean, seen.spot.map_name) == seen.spot:
        return _of_the_pronoun(seen)
    spot, (silent,) = seen.spot, seen.changed
    rows, columns = axes(seen.clean, seen.clean.block(spot.map_name, spot.layer))
    weight = seen.clean.block(spot.map_name, spot.layer).weights[spot.head, spot.row, spot.key]
    gain = log_probability(silent) - log_probability(seen.clean)
    factor = math.exp(min(max(gain, -700.0), 700.0))
    right = sum(factor > bound for bound in BOUNDS)
    told = {
        "head": spot.label,
        "word": quoted(rows.labels[spot.row]),
        "other": quoted(columns.labels[spot.key]),
        "weight": share(float(weight)),
    }
    return Ask(
        say(
            "Head {head} looks plainly from {word} to {other}: {weight}. We switch the whole head "
            "off. What becomes of the probability of the whole translation?",
            **told,
        ),
        _options(),
        right,
        _why(factor, right),
        _hint(seen.clean, silent),
    )


def _of_the_pronoun(seen: Seen) -> Ask:
    """Return the question about er, sie or es when the head of the famous figure is off."""
    spot, (silent,) = seen.spot, seen.changed
    row = pronoun_row(seen.clean)
    before, after = seen.clean.produced, silent.produced
    assert row is not None and before is not None and after is not None
    attention = seen.clean.block(spot.map_name, spot.layer)
    rows, columns = axes(seen.clean, attention)
    was, now = float(before.probability[row]), float(after.probability[row])
    factor = now / max(was, float(np.finfo(np.float32).smallest_subnormal))
    right = sum(factor > bound for bound in BOUNDS)
    told = {
        "head": spot.label,
        "word": quoted(rows.labels[spot.row]),
        "other": quoted(columns.labels[spot.key]),
        "weight": share(float(attention.weights[spot.head, spot.row, spot.key])),
        "pronoun": quoted(before.labels[row]),
    }
    return Ask(
        say(
            "In the encoder, {word} looks most at {other} in head {head}: {weight}. It looks as if "
            "that noun were meant. We switch the whole head off. What becomes of the probability "
            "of {pronoun} in the translation?",
            **told,
        ),
        _options(),
        right,
        _why_the_pronoun(right, told | {"before": share(was), "after": share(now)}),
        say(
            "This is one of {count} heads of the encoder, and what the others bring, and what "
            "flows past them, stays.",
            count=sum(len(one.weights) for one in seen.clean.blocks(spot.map_name)),
        ),
        lab="it",
    )


def _options() -> tuple[str, ...]:
    return (
        say("it falls to less than a tenth"),
        say("it falls, but not so far"),
        say("it stays about the same"),
        say("it rises"),
    )


def _why_the_pronoun(right: int, told: dict[str, str]) -> str:
    if right == 2:
        return say(
            "{pronoun} has {after}, and had {before}: it does without this head. The picture looks "
            "like the reason, but the pronoun does not need it. Which heads it needs, only "
            "switching them off tells: the lab “Who is “it”?” tries all of them.",
            **told,
        )
    if right == 3:
        return say(
            "{pronoun} has {after}, and had {before}: without this head the model is even surer. "
            "Which heads the pronoun needs, only switching them off tells: the lab “Who is “it”?” "
            "tries all of them.",
            **told,
        )
    return say(
        "{pronoun} has {after}, and had {before}: here the model relied on this head. But the map "
        "did not tell that; switching it off did. The lab “Who is “it”?” tries all heads.",
        **told,
    )


def _hint(clean: Trace, silent: Trace) -> str:
    """Return a hint with the word whose probability the edit changes most."""
    assert clean.produced is not None and silent.produced is not None
    before, after = clean.produced.probability, silent.produced.probability
    word = int(np.abs(after - before).argmax())
    if share(float(before[word])) == share(float(after[word])):
        return say(
            "Without this head no word's probability changes by as much as two digits show; the "
            "probability of the whole is the product of all its words'."
        )
    return say(
        "Without this head {word} changes most, from {before} to {after}; the probability of the "
        "whole is the product of all its words'.",
        word=quoted(clean.produced.labels[word]),
        before=share(float(before[word])),
        after=share(float(after[word])),
    )


def _why(factor: float, right: int) -> str:
    told = {"factor": f"{factor:.2f}" if 0.01 <= factor < 10 else _far(factor)}
    if right == 2:
        return say(
            "The whole text is {factor} times as probable as before: single words may have moved, "
            "up and down. The picture is clear, yet the translation stays.",
            **told,
        )
    if right == 3:
        return say(
            "It is {factor} times what it was: without this head the model is even surer of the "
            "translation. A clear picture is not a reason for the answer.",
            **told,
        )
    return say(
        "It is {factor} times what it was: the model relied on this head here. But the map did "
        "not tell that; switching it off did. And it does not say that the link from word to word "
        "was the reason: the head does other things too.",
        **told,
    )


def _far(factor: float) -> str:
    return rough(factor) if factor >= 10 else f"{factor:.0e}"


STATION = Station(
    name="limits",
    title=mark("What attention does not tell"),
    page="explore",
    minutes=6,
    aim=mark("Why a weight is not a reason, and why changing the model tells more than looking."),
    text=mark(
        "A strong cell looks like a reason. But a [weight] only says how much of one word's "
        "[value] is mixed in, not why the answer came out: much flows past a [head] in the "
        "[residual stream]. So do not only look: change something, and see. Do it yourself: in "
        "the dock (while presenting, the key C shows it) choose “this head”, then “off”, and read "
        "the lines above the maps."
    ),
    do=mark(
        "Switch heads off, one by one. Which one does the translation need most? Where your "
        "sentence has an “it”, the lab “Who is “it”?” tries all of them. The page “Why this word?” "
        "does the same with words: its deletion curve judges five ways to explain one."
    ),
    notes=Notes(
        say=mark(
            "Let the class bet before each switch. Heads with the clearest maps are often not the "
            "ones that matter most; write down which are. Where the sentence has an “it”, the "
            "question is about the picture that made attention famous."
        ),
        ask=mark("If an explanation must be true of the model, how could one test it?"),
        beware=mark(
            "A head that can be switched off unharmed is not useless: others may have stepped in, "
            "and on another sentence it may matter. Researchers argue about what a weight explains "
            "(Jain and Wallace 2019: “Attention is not Explanation”; Wiegreffe and Pinter 2019: "
            "“Attention is not not Explanation”)."
        ),
    ),
    maps=("encoder", "decoder"),
    find=find,
    state=_state,
    ask=_ask,
    translates=True,
    experiments=_experiments,
    deed=mark("switch it off for me"),
    hides=hides,
)
