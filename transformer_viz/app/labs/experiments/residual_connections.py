"""Lab on residual connections: token vectors become similar without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from .... import views
from ....core.interventions import Intervention, ScaleResidual
from ....core.sites import MAPS
from ....core.trace import Trace
from ....i18n import mark, say
from ....metrics.residual.similarity import alikeness
from ....views.charts.curves import Curve
from ...session.scene import Scene
from ...ui import layout
from .. import held_runs
from ..bench import Bench
from ..lab import Lab

MUCH = 0.1  # cosine; smaller changes count as none
EVERY = "all"


@dataclass(frozen=True, eq=False)
class Cut:
    """Effects of removing residual connections.

    Attributes:
        before: Similarity of the token vectors after each layer, ``[layer + 1]``, in the clean run.
        after: The same in the changed run.
        stack: The chosen stack.
        bits: Bits of the fixed text in both runs.
        texts: Generated texts of both runs, or None.
    """

    before: np.ndarray
    after: np.ndarray
    stack: str
    bits: tuple[float, float]
    texts: tuple[str, str] | None


def cut(bench: Bench) -> Cut:
    scene = bench.scene
    with layout.row("bottom"):
        stack = _stack(bench)
        layers = len(scene.before.hidden(stack)) - 1
        where = _layer(bench, layers)
    layer = None if where == EVERY else int(where)
    edits = Intervention((ScaleResidual(value=0, stack=stack, layer=layer),))
    now = bench.changed(edits)
    clean, changed = (alikeness(trace.hidden(stack)) for trace in (scene.before, now))
    left, right = st.columns(2)
    with left:
        _alike(bench, clean, changed)
    with right:
        _lengths(bench, now, stack)
    bits = (
        [
            float(part.sum())
            for part in held_runs.costs(
                bench, (Intervention(), edits), say("Running the changed model ...")
            )
        ]
        if scene.before.produced is not None
        else [0.0, 0.0]
    )
    return Cut(clean, changed, stack, (bits[0], bits[1]), _texts(bench, edits))


def _stack(bench: Bench) -> str:
    stacks = tuple(dict.fromkeys(MAPS[name][0] for name in bench.scene.before.maps))
    if len(stacks) == 1:
        return stacks[0]
    named = {"encoder": say("encoder"), "decoder": say("decoder")}
    return bench.choose("stack", say("where"), {s: named[s] for s in stacks}, stacks[0])


def _layer(bench: Bench, layers: int) -> str:
    options = {EVERY: say("all layers")} | {str(n): f"L{n}" for n in range(layers)}
    return bench.pick("layer", say("cut in"), options, EVERY)


def _alike(bench: Bench, clean: np.ndarray, changed: np.ndarray) -> None:
    places = np.arange(len(clean))
    names = [say("embedding"), *(say("after L{layer}", layer=n) for n in range(len(clean) - 1))]
    lines = [
        Curve(say("changed run"), places, changed),
        Curve(say("clean run"), places, clean, dashed=True),
    ]
    caption = say(
        "Mean cosine between the vectors of two words: 1, they point the same way; 0, they have "
        "nothing in common. The last point stands behind the stack's last norm, if it has one."
    )
    bench.chart(
        "alike",
        say("How alike are the words' vectors?"),
        lambda: views.curves(
            lines, say("layer"), say("mean cosine"), caption, names=names, dark=bench.dark
        ),
    )


def _lengths(bench: Bench, now: Trace, stack: str) -> None:
    words = now.words_of(stack).labels
    token = min(bench.scene.look.token, len(words) - 1)
    bench.chart(
        "length",
        say("How long is a word's vector on its way through the layers?"),
        lambda: views.stream_length(now, stack, token, before=bench.scene.before, dark=bench.dark),
    )


def _texts(bench: Bench, edits: Intervention) -> tuple[str, str] | None:
    if not bench.scene.kind.writes:
        return None
    before, after = held_runs.texts(bench, (Intervention(), edits), say("Translating ..."))
    rows = [
        (say("clean run"), held_runs.shown(before)),
        (say("residual cut"), held_runs.shown(after)),
    ]
    bench.table((say("run"), say("the model writes by itself")), rows, texts=(1,))
    return before, after


def collapsed(found: Cut) -> int:
    change = float(found.after[-1] - found.before[-1])
    if abs(change) < MUCH:
        return 0
    return 2 if change > 0 else 1


def explain(bench: Bench, found: Cut) -> None:
    bench.tell(
        say(
            "At the end of the stack two words' vectors have a mean [cosine] of {after:.2f}; in "
            "the clean run it is {before:.2f}.",
            after=float(found.after[-1]),
            before=float(found.before[-1]),
        ),
        _why(found),
    )
    fields: dict[str, Any] = {"was": found.bits[0], "now": found.bits[1]}
    if any(found.bits):
        bench.tell(say("The held text costs {now:.1f} bits; it was {was:.1f}.", **fields))
    bench.quiet(
        say(
            "Attention is a weighted mean, and a mean of means is flatter still: without the sums, "
            "words become alike with each layer (Dong et al. 2021). The model was trained with the "
            "sums; its other numbers expect them."
        )
    )


def _why(found: Cut) -> str:
    if collapsed(found) == 2:
        return say(
            "Nothing carries a word's own vector past the sub-layer any more, so the words lose "
            "what told them apart."
        )
    return say(
        "With the sums in the other layers, enough of each word's own vector comes through here."
    )


def _lacks(scene: Scene) -> str | None:
    if scene.before.hiddens and all(len(words) > 1 for words in _sentences(scene)):
        return None
    return say(
        "The residual stream of this model was not found, or its sentence has one word only."
    )


def _sentences(scene: Scene) -> list[Any]:
    return [scene.before.words_of(stack) for stack in scene.before.hiddens]


RESIDUAL = Lab(
    name="residual",
    title=mark("Residual"),
    question=mark(
        "Each layer adds to what came in. Cut that away: what becomes of the words' vectors?"
    ),
    options=(
        mark("They stay as different from one another as before."),
        mark("They become more different."),
        mark("They all become alike."),
    ),
    experiment=cut,
    answer=collapsed,
    reveal=explain,
    lacks=_lacks,
)
