"""Lab on learning: a model at eight snapshots of its training, on the scene's sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import streamlit as st

from ....components.atlas import TITLES, atlas_data
from ....core.interventions import Intervention
from ....core.trace import Trace
from ....i18n import mark, numeral, say
from ....metrics.output.surprisal import held_bits
from ...engine.query import DetailRequest, Question
from ...session import url_state
from ...ui import components, layout
from ...ui.progress import run_with_progress
from .. import head_map, held_runs, lab_state
from ..bench import Bench
from ..lab import Lab
from ..learning_curves import curves
from ..measure_curves import measure_curves
from ..snapshots import Moment, measured

BOUNDS = (64, 1024, 4096)  # updates between the options; each has a snapshot, so each is measured


@dataclass(frozen=True, eq=False)
class SnapshotResult:
    """Measurements at each snapshot.

    Attributes:
        moments: The snapshots.
        texts: Generated text at each.
        entropies: Mean entropy of the heads by map, bits ``[moment]``.
        bits: Cost of the final text without its end token, bits ``[moment]``.
    """

    moments: tuple[Moment, ...]
    texts: tuple[str, ...]
    entropies: dict[str, np.ndarray]
    bits: np.ndarray

    @property
    def first(self) -> Moment:
        """First snapshot from which on the text equals the final one."""
        other = [n for n, text in enumerate(self.texts) if text != self.texts[-1]]
        return self.moments[other[-1] + 1 if other else 0]


def experiment(bench: Bench) -> SnapshotResult:
    moments = measured()[1]
    texts, traces = _runs(bench, moments)
    # the last row predicts no token of the text, only each snapshot's own guess
    bits = np.array([held_bits(trace)[:-1].sum() for trace in traces])
    found = SnapshotResult(moments, texts, entropies(traces), bits)
    steps = [moment.step for moment in moments]
    with layout.row("bottom"):
        step = int(bench.slide("step", say("after update"), steps, steps[0], _counted))
        options = {name: say(TITLES[name]) for name in traces[0].maps}
        block = bench.choose("block", say("attention"), options, "cross")
    now = steps.index(step)
    _said(found, now)
    place = _attention(bench, traces[now], block, step)
    curves(bench, moments, found.entropies, now)
    _table(bench, found, now)
    measure_curves(bench, moments, (_sentence(bench), texts[-1]), place, now)
    return found


def _counted(text: str) -> str:
    return numeral(int(text), ",")


def _runs(bench: Bench, moments: Sequence[Moment]) -> tuple[tuple[str, ...], list[Trace]]:
    """Return the text that each snapshot generates, and its run on the final snapshot's text."""
    engine, source = bench.scene.engine, _sentence(bench)
    asked = [Question(moment.name, source, beam=1) for moment in moments]

    def work(task: Any) -> tuple[tuple[str, ...], list[Trace]]:
        texts, traces = [], []
        final = engine.free(asked[-1], Intervention(), task)
        for number, question in enumerate(asked):
            task.step(number, len(asked))
            texts.append(engine.free(question, Intervention(), task))
            same = replace(question, target=final)
            traces.append(engine.clean(same, DetailRequest(()), task).trace)
        return tuple(texts), traces

    return run_with_progress(
        work,
        key="lab-learning",
        label=say("Opening the snapshots one after the other ..."),
        about=source,
        where=bench.where,
    )


def _sentence(bench: Bench) -> str:
    """Return the scene's sentence if its model reads text, else the default one."""
    kind, text = bench.scene.kind, bench.scene.question.text
    return text if kind.takes == "text" and kind.spelled and text else str(url_state.FIRST_TEXT)


def entropies(traces: Sequence[Trace]) -> dict[str, np.ndarray]:
    """Return the mean entropy of all heads of each map, bits ``[trace]``."""
    return {name: np.array([_entropy(trace, name) for trace in traces]) for name in traces[0].maps}


def _entropy(trace: Trace, block: str) -> float:
    return float(np.nanmean(trace.head_column(block, "entropy")))


def _said(found: SnapshotResult, now: int) -> None:
    moment = found.moments[now]
    text = held_runs.shown(found.texts[now])
    said = say("After update {step:,} it writes: {text}", step=moment.step, text=text)
    st.html(f'<p class="tv-lab-say" data-what="said">{escape(said)}</p>')


def _attention(bench: Bench, trace: Trace, block: str, step: int) -> tuple[str, int, int]:
    """Draw the atlas and the open head; return the head's map, layer and index."""
    layers, heads = trace.thumbnail(block).shape[:2]
    names = [f"L{r}H{c}" for r in range(layers) for c in range(heads)]
    chosen = lab_state.valid_setting("head", names, names[-heads])
    layer, head = (int(part) for part in chosen.removeprefix("L").split("H"))
    left, right = st.columns(layout.WIDER_LEFT)
    with left:
        title = say("Which words does each head look at, after update {step:,}?", step=step)
        layout.heading(title, 3)
        data = atlas_data(trace, [block], opened=(block, layer, head), scale="common")
        components.atlas(
            data, key="lab-learning-atlas", opened=_open, overlaid=_ignore, drawn=_ignore
        )
    with right:
        layout.heading(f"L{layer} H{head}", 3)
        head_map.head(bench, "head", trace, block, layer, head, direction=_direction(block))
    return block, layer, head


def _direction(block: str) -> str | None:
    """Return the meaning of a map's rows.

    All snapshots run on the final text, so the last row has no next token but the snapshot's guess.
    """
    if block == "encoder":
        return None
    return say(
        "each row is named after the token it writes (the last: this snapshot's own guess), and "
        "looks at columns"
    )


def _open(said: object) -> None:
    match said:
        case [str(), int(layer), int(head)]:
            lab_state.put("head", f"L{layer}H{head}")


def _ignore(said: object) -> None:
    """Ignore events: the lab fixes how the atlas is drawn."""


def _table(bench: Bench, found: SnapshotResult, now: int) -> None:
    rows = [
        (
            numeral(moment.step, ","),
            f"{moment.loss:.2f}",
            f"{moment.bleu:.1f}",
            *(f"{values[place]:.2f}" for values in found.entropies.values()),
            f"{found.bits[place]:.1f}",
            held_runs.shown(found.texts[place]),
        )
        for place, moment in enumerate(found.moments)
    ]
    named = [say("{map}, bits", map=say(TITLES[name])) for name in found.entropies]
    final = say("bits of the final text")
    heads = (say("updates"), say("loss"), "BLEU", *named, final, say("it writes, greedily"))
    with st.container(key="fold-learning"):
        bench.table(heads, rows, now, texts=(len(heads) - 1,))


def answer(found: SnapshotResult) -> int:
    return sum(found.first.step > bound for bound in BOUNDS)


def reveal(bench: Bench, found: SnapshotResult) -> None:
    bench.tell(
        say(
            "From update {step:,} on it writes “{text}”, as at the end (of the moments that were "
            "kept).",
            step=found.first.step,
            text=found.texts[-1],
        ),
        _order(found),
    )
    bench.quiet(
        say(
            "The first snapshot, after one update, is as good as random: there is none of update "
            "0. The model is small on purpose; en-de translates better. Entropy falls or rises for "
            "many reasons and is no measure of quality."
        )
    )


def _order(found: SnapshotResult) -> str:
    """Return a sentence on the updates at which half of the loss and of the BLEU is reached."""
    losses = [moment.loss for moment in found.moments]
    half = next(m for m in found.moments if losses[0] - m.loss >= (losses[0] - losses[-1]) / 2)
    good = next(m for m in found.moments if m.bleu >= found.moments[-1].bleu / 2)
    return say(
        "Half of all the loss that it ever sheds is gone at update {half:,}; half of the final "
        "BLEU is reached at {good:,}. Words that are frequent anyway become likely first, "
        "whatever the source says: read what it writes before.",
        half=half.step,
        good=good.step,
    )


LEARNING = Lab(
    name="learning",
    title=mark("Watch it learn"),
    question=mark(
        "A model learns for 16,384 updates. When does it first translate this sentence as it "
        "does at the end?"
    ),
    options=(
        mark("Within the first 64 updates."),
        mark("Between 64 and 1,024."),
        mark("Between 1,024 and 4,096."),
        mark("Only after 4,096."),
    ),
    experiment=experiment,
    answer=answer,
    reveal=reveal,
)
