"""Lab on attention score functions: five tiny models on one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import streamlit as st

from ....core.interventions import Edit, Intervention, Temperature, Window
from ....i18n import mark, numeral, say
from ...ui import layout
from .. import head_map
from ..bench import Bench
from ..lab import Lab
from ..tiny_models import Tiny, reads_english, trainings, translations

#: Formula of each model.
WAYS = {
    "scaled-dot": "q·k / √dₖ",
    "dot": "q·k",
    "general": "q·W·k",
    "additive": "v·tanh(q + k)",
    "location": "W·q",
}
TITLES = (
    mark("scaled dot product (Vaswani)"),
    mark("dot product (Luong)"),
    mark("general (Luong)"),
    mark("additive (Bahdanau)"),
    mark("location, which never sees a key (Luong)"),
)
SHARPEST = "sharp"
ABREAST = 3  # maps per row


@dataclass(frozen=True, eq=False)
class ScoreFunctionResult:
    """The five models; None for one that is not bundled."""

    models: tuple[Tiny | None, ...]


def experiment(bench: Bench) -> ScoreFunctionResult:
    """Draw the five models on the scene's sentence, with controls that apply to all."""
    changes, layer, head = _controls(bench)
    found = ScoreFunctionResult(translations(bench, tuple(WAYS), changes))
    _compared(bench, found)
    _maps(bench, found, layer, head)
    bench.quiet(
        say(
            "Cross-attention of each model over its own greedy translation: rows look at columns. "
            "Which number a head has means nothing from one model to another. Attention weights "
            "are not explanations."
        )
    )
    return found


def _controls(bench: Bench) -> tuple[Intervention, int, str]:
    with layout.row("bottom", gap="medium"):
        soft = {"soft": say("soft"), "hard": say("hard (one key takes all)")}
        hard = bench.choose("softness", say("cross-attention of all five"), soft, "soft") == "hard"
        reach = bench.slide(
            "window",
            say("local: at most so many words away"),
            (*range(7), 99),
            99,
            lambda text: say("global") if text == "99" else text,
            width=layout.SLIDER_WIDTH,
        )
        layer = bench.choose("layer", say("layer"), {"0": "L0", "1": "L1"}, "1")
        heads = {SHARPEST: say("most decided"), **{str(n): f"H{n}" for n in range(4)}}
        head = bench.choose("head", say("head"), heads, SHARPEST)
    edits: list[Edit] = [Temperature(value=0.0, stack="decoder", block="cross")] if hard else []
    if reach < 99:
        edits.append(Window(radius=int(reach), stack="decoder", block="cross"))
    return Intervention(tuple(edits)), int(layer), head


def _compared(bench: Bench, found: ScoreFunctionResult) -> None:
    """Draw a table: formula, size, BLEU and translation of each model."""
    rows = [
        (say(title), formula, *_cells(model))
        for model, formula, title in zip(found.models, WAYS.values(), TITLES, strict=True)
    ]
    heads = (say("score"), "", say("parameters"), "BLEU", say("its translation"))
    bench.table(heads, rows, texts=(4,))


def _cells(model: Tiny | None) -> tuple[str, str, str]:
    if model is None:
        return "", "", say("not in this box")
    return numeral(model.parameters, ","), model.score or say("not measured"), model.text


def _maps(bench: Bench, found: ScoreFunctionResult, layer: int, head: str) -> None:
    shown = [(model, title) for model, title in zip(found.models, TITLES, strict=True) if model]
    with st.container(key="pictures-scores"):
        for first in range(0, len(shown), ABREAST):
            for place, (model, title) in zip(
                st.columns(ABREAST), shown[first : first + ABREAST], strict=False
            ):
                with place:
                    chosen = _head(model, layer, head)
                    named = f"{say(title)} · L{layer} H{chosen}"
                    layout.heading(escape(named), 3)
                    head_map.head(bench, model.name, model.trace, "cross", layer, chosen)


def _head(model: Tiny, layer: int, head: str) -> int:
    """Return the chosen head, or the one with the lowest entropy in this layer."""
    if head != SHARPEST:
        return int(head)
    heads = model.trace.heads
    mine = heads[(heads["block"] == "cross") & (heads["layer"] == layer)]
    return int(mine.loc[mine["entropy"].idxmin(), "head"])


def answer(found: ScoreFunctionResult) -> int | None:
    """Return the model with the lowest BLEU, or None if some are not measured."""
    scores = [model.bleu if model else None for model in found.models]
    known = [score for score in scores if score is not None]
    if len(known) < len(scores) or scores.count(min(known)) > 1:
        return None
    return scores.index(min(known))


def reveal(bench: Bench, found: ScoreFunctionResult) -> None:
    """Draw the BLEU on the test file, and the limits of a single sentence."""
    known = [
        (say(title), model.bleu)
        for model, title in zip(found.models, TITLES, strict=True)
        if model and model.bleu is not None
    ]
    if known:
        best, worst = (pick(known, key=lambda one: one[1]) for pick in (max, min))
        bench.tell(
            say(
                "On the whole test file the highest [BLEU] is {most:.1f} ({best}), the lowest "
                "{least:.1f} ({worst}).",
                best=best[0],
                most=best[1],
                worst=worst[0],
                least=worst[1],
            )
        )
    bench.tell(
        say(
            "Location scores are made of the query alone: such a head can say “look at the third "
            "word”, but never “look at the word that means this”. The other four compare a query "
            "with every key."
        ),
        _chance(trainings(found.models)),
    )


def _chance(times: int) -> str:
    """Return a sentence on the reliability of the differences."""
    if times > 1:
        return say(
            "All five have learned for the same number of updates from the same sentences, each "
            "{times} times from other random weights. The score is the mean, the brackets hold the "
            "least and the most: where those of two formulas overlap, their difference may be "
            "chance.",
            times=times,
        )
    return say(
        "All five have learned for the same number of updates from the same sentences, with "
        "the same seed. One run of each says what happened here, not which formula is best: "
        "differences of a point or two of BLEU may be chance."
    )


SCORES = Lab(
    name="scores",
    title=mark("Five ways to score"),
    question=mark(
        "Five tiny models learned from the same sentences for the same time. They differ only in "
        "how a query is compared with a key. Which one gets the lowest BLEU on the test file?"
    ),
    options=TITLES,
    experiment=experiment,
    answer=answer,
    reveal=reveal,
    lacks=reads_english,
)
