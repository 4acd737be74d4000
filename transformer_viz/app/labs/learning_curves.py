"""Entropy, loss and BLEU over the updates of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from ... import views
from ...components.atlas import TITLES
from ...i18n import say
from ...views.charts.curves import Curve
from .bench import Bench
from .snapshots import Moment, logged, measured


def curves(
    bench: Bench, moments: Sequence[Moment], entropies: Mapping[str, np.ndarray], now: int
) -> None:
    """Draw three charts side by side, with the current snapshot marked in each.

    Args:
        bench: Bench of the lab.
        moments: The snapshots.
        entropies: Mean entropy of the heads by map, bits ``[moment]``.
        now: Index of the snapshot to mark.
    """
    steps = np.array([moment.step for moment in moments])
    across = say("updates")
    steady: dict[str, Any] = {"log": "x", "dark": bench.dark, "height": 300}
    left, middle, right = st.columns(3)
    with left:
        lines = [
            Curve(say(TITLES[name]), steps, values, marked=now)
            for name, values in entropies.items()
        ]
        caption = say(
            "Mean over all heads, on this sentence and the final translation, which every snapshot "
            "is given; fewer bits: looks at fewer words."
        )
        bench.chart(
            "entropy",
            say("How widely do heads look?"),
            lambda: views.curves(lines, across, say("entropy, bits"), caption, **steady),
        )
    with middle:
        unseen = Curve(say("test text"), steps, [m.loss for m in moments], bare=True, marked=now)
        log = Curve(say("validation text, from log.csv"), *logged(), dashed=True)
        said = say("Nats for each piece that the model had never seen; the log begins at 500.")
        bench.chart(
            "loss",
            say("How surprised is it by new text?"),
            lambda: _few_ticks(
                views.curves([unseen, log], across, say("loss, nats"), said, **steady), steps
            ),
        )
    with right:
        bleu = Curve("BLEU", steps, [moment.bleu for moment in moments], marked=now)
        bench.chart(
            "bleu",
            say("How well does it translate?"),
            lambda: views.curves([bleu], across, "BLEU", _how(), **steady),
        )


def _few_ticks(picture: Any, steps: np.ndarray) -> Any:
    """Label only the snapshots on the axis: the log has a line every few hundred updates."""
    return picture.update_xaxes(tickvals=list(steps), ticktext=[f"{step:g}" for step in steps])


def _how() -> str:
    words = measured()[0]
    return say(
        "On all {sentences:,} sentences of {file}, greedy, cased, every reference.",
        sentences=words["sentences"],
        file=words["file"],
    )
