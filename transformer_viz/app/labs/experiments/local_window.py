"""Lab on local attention: the number of neighbours that each token needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from .... import views
from ....core.interventions import Intervention, Window
from ....i18n import mark, numeral, say
from ....views.charts.curves import Curve
from .. import held_runs
from ..bench import Bench
from ..lab import Lab

RADII = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
ENOUGH = 1.0  # bits over the whole text; a window that costs less is wide enough


@dataclass(frozen=True, eq=False)
class Windowed:
    """Additional bits of the fixed text by radius, and the number of tokens of the longer side."""

    radii: tuple[int, ...]
    bits: np.ndarray
    tokens: int

    @property
    def enough(self) -> int | None:
        """Smallest radius from which on the text costs less than a bit more, or None."""
        dear = np.flatnonzero(self.bits >= ENOUGH)
        first = 0 if not dear.size else int(dear[-1]) + 1
        return self.radii[first] if first < len(self.radii) else None


def window(bench: Bench) -> Windowed:
    scene = bench.scene
    reach = bench.choose(
        "where",
        say("who looks through the window"),
        {"self": say("self-attention"), "all": say("all attention")},
        "self",
    )
    tokens = max(len(scene.before.source), len(scene.before.words_of("decoder")))
    radii = tuple(r for r in RADII if r < tokens)
    fields: dict[str, Any] = {"block": "self"} if reach == "self" else {}
    changes = [Intervention((Window(radius=radius, **fields),)) for radius in radii]
    clean, *found = held_runs.costs(
        bench, (Intervention(), *changes), say("Running the changed model ...")
    )
    bits = np.array([part.sum() - clean.sum() for part in found])
    result = Windowed(radii, bits, tokens)
    _window_chart(bench, result)
    if scene.kind.writes:
        _window_texts(bench, result, changes)
    return result


def _window_chart(bench: Bench, found: Windowed) -> None:
    line = Curve(say("bits more"), found.radii, found.bits)
    caption = say(
        "Bits that the held text costs more than in the clean run; one bit: half as probable."
    )
    bench.chart(
        "radius",
        say("What does a window cost?"),
        lambda: views.curves(
            [line], say("tokens to each side"), say("bits more"), caption, dark=bench.dark
        ),
    )


def _window_texts(bench: Bench, found: Windowed, changes: Sequence[Intervention]) -> None:
    texts = held_runs.texts(bench, changes, say("Translating ..."))
    rows = [
        (str(radius), numeral(bits, "+.2f"), held_runs.shown(text))
        for radius, bits, text in zip(found.radii, found.bits, texts, strict=True)
    ]
    heads = (say("tokens to each side"), say("bits more"), say("the model writes by itself"))
    with st.container(key="fold-window"):
        bench.table(heads, rows, texts=(2,))


def windowed(found: Windowed) -> int:
    if found.enough is None or found.enough > 5:
        return 2
    return 0 if found.enough <= 1 else 1


def explain_window(bench: Bench, found: Windowed) -> None:
    if found.enough is None:
        bench.tell(
            say(
                "No window shown here is wide enough: each costs at least a bit, in a text of "
                "{tokens} tokens.",
                tokens=found.tokens,
            )
        )
    else:
        bench.tell(
            say(
                "From {radius} tokens to each side on, the held text costs less than one bit; the "
                "text has {tokens} tokens.",
                radius=found.enough,
                tokens=found.tokens,
            )
        )
    bench.tell(
        say(
            "A window saves work: each word looks at a fixed number of others, so a text twice as "
            "long costs twice as much and not four times (local attention: Luong et al. 2015, "
            "section 3.2). What it costs depends on which words need each other here."
        )
    )
    bench.quiet(
        say(
            "This model was trained to see everything; one trained with a window would have "
            "learned to hand on what lies beyond it from layer to layer."
        )
    )


WINDOW = Lab(
    name="window",
    title=mark("A window"),
    question=mark("Each word may look only at its neighbours. How many to each side are enough?"),
    options=(
        mark("0 or 1"),
        mark("2 to 5"),
        mark("more than 5"),
    ),
    experiment=window,
    answer=windowed,
    reveal=explain_window,
    lacks=held_runs.wordless,
)
