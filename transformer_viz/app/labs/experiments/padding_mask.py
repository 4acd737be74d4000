"""Lab on the padding mask: the effect of unmasked padding behind a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....core.interventions import Intervention, Pad
from ....core.trace import Trace
from ....i18n import mark, say
from ....metrics.output.surprisal import weight_on
from ...session.scene import Scene
from .. import held_runs
from ..bench import Bench
from ..lab import Lab
from ..whole_runs import too_long

SOME = 0.05  # bits of the whole text; smaller changes count as none
LOOKING = ("encoder", "cross")  # maps that look at the source


@dataclass(frozen=True, eq=False)
class Padded:
    """Effects of padding.

    Attributes:
        bits: Bits of the whole text: clean, with masked and with unmasked padding.
        weight: Mean weight on unmasked padding, by map.
        texts: The three generated texts.
    """

    bits: tuple[float, float, float]
    weight: dict[str, float]
    texts: tuple[str, str, str]


def pad(bench: Bench) -> Padded:
    count = int(bench.slide("count", say("padding tokens"), (1, 2, 3, 5, 8, 12, 20), 3))
    changes = [
        Intervention(),
        *(Intervention((Pad(count=count, masked=m),)) for m in (True, False)),
    ]
    bits = [
        part.sum() for part in held_runs.costs(bench, changes, say("Running the changed model ..."))
    ]
    texts = held_runs.texts(bench, changes, say("Translating ..."))
    whole = bench.whole(*LOOKING, under=changes[2])
    weight = _on_padding(whole, len(bench.scene.before.source))
    names = (say("no padding"), say("padding, masked"), say("padding, not masked"))
    rows = [
        (name, f"{bit:.2f}", held_runs.shown(text))
        for name, bit, text in zip(names, bits, texts, strict=True)
    ]
    heads = (say("run"), say("bits of the held text"), say("the model writes by itself"))
    bench.table(heads, rows, texts=(2,))
    return Padded((bits[0], bits[1], bits[2]), weight, (texts[0], texts[1], texts[2]))


def _on_padding(trace: Trace, source: int) -> dict[str, float]:
    """Return the mean share of weight on padding, for each map that looks at the source."""
    found = {}
    for name in LOOKING:
        parts = [
            weight_on(b.weights, np.arange(b.weights.shape[2]) >= source)
            for b in trace.blocks(name)
        ]
        found[name] = float(np.concatenate(parts).mean())
    return found


def padded(found: Padded) -> int:
    if found.texts[2] != found.texts[0]:
        return 2
    return 0 if abs(found.bits[2] - found.bits[0]) < SOME else 1


def explain_padding(bench: Bench, found: Padded) -> None:
    clean, masked, seen = found.bits
    bench.tell(
        say(
            "Masked padding costs {masked:.4f} bits: nothing but rounding, for a hidden key gets "
            "weight 0. Seen, it draws {encoder:.0%} of the encoder's weight and {cross:.0%} of the "
            "cross-attention's, and the held text costs {seen:.2f} bits.",
            masked=abs(masked - clean),
            seen=seen - clean,
            **found.weight,
        ),
        say("One bit more: the whole text is half as probable."),
    )
    bench.tell(
        say(
            "Sentences of one batch are filled up to the same length, so without a mask a "
            "sentence's translation would depend on how long its neighbours in the batch are."
        )
    )


def _no_padding(scene: Scene) -> str | None:
    if scene.kind.translates and scene.kind.padded and scene.kind.takes == "text":
        return too_long(scene, *LOOKING)
    return say(
        "This lab fills a source sentence up and translates it; choose a model that translates, "
        "such as en-de."
    )


PADDING = Lab(
    name="padding",
    title=mark("Padding"),
    question=mark("Empty tokens stand behind the sentence, and nobody hides them. What happens?"),
    options=(
        mark("Nothing: empty tokens carry no meaning."),
        mark("The model becomes less sure, but writes the same."),
        mark("It writes something else."),
    ),
    experiment=pad,
    answer=padded,
    reveal=explain_padding,
    lacks=_no_padding,
)
