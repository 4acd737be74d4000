"""Measures of one head over the updates of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from ... import views
from ...core.sites import MAPS, called
from ...i18n import mark, numeral, say
from ...metrics.head_measures.registry import MEASURE_BY_NAME, MEASURES
from ...views.charts.curves import Curve
from ...views.html.measure_cells import DASH
from ..heads.jobs import measured
from ..ui import layout
from ..ui.progress import run_with_progress
from .bench import Bench
from .snapshots import Moment

#: Title of each of the three charts, by group of measures.
QUESTIONS = {
    "looks": mark("Where does it look?"),
    "parks": mark("How sharply does it look, and does it park?"),
    "finds": mark("What does it find, and pass on?"),
}
GROUPS = {
    group: (question, tuple(one.name for one in MEASURES if one.group == group))
    for group, question in QUESTIONS.items()
}


def measured_at(
    bench: Bench, moments: Sequence[Moment], source: str, target: str
) -> list[pd.DataFrame]:
    """Return a table of all heads' measures per snapshot, on one sentence with a fixed target."""
    engine, items = bench.scene.engine, ((source, target),)

    def work(task: Any) -> list[pd.DataFrame]:
        tables = []
        for number, moment in enumerate(moments):
            found = engine.ask(moment.name, measured, items, task=task, stepped=True)
            tables.append(found.table)
            task.step(number + 1, len(moments))
        return tables

    return run_with_progress(
        work,
        key="lab-learning-measures",
        label=say("Measuring the heads of every snapshot ..."),
        about=items,
    )


def lines_of(tables: Sequence[pd.DataFrame], block: str, layer: int, head: int) -> pd.DataFrame:
    """Return the rows of one head, one per snapshot."""
    stack, kind = MAPS[block]
    rows = []
    for table in tables:
        here = (table["stack"] == stack) & (table["block"] == kind)
        here &= (table["layer"] == layer) & (table["head"] == head)
        rows.append(table[here].iloc[0])
    return pd.DataFrame(rows).reset_index(drop=True)


def measure_curves(
    bench: Bench,
    moments: Sequence[Moment],
    texts: tuple[str, str],
    place: tuple[str, int, int],
    now: int,
) -> None:
    """Draw three charts of a head's measures, and a table of the current snapshot with chance.

    Args:
        bench: Bench of the lab.
        moments: The snapshots.
        texts: The sentence, and the translation that is fixed for all snapshots.
        place: Map, layer and head.
        now: Index of the snapshot to mark.
    """
    block, layer, head = place
    name = f"{called(block)} L{layer} H{head}"
    layout.heading(say("How do the measures of {head} move while it learns?", head=name), 3)
    if not texts[1]:
        layout.quiet(say("It writes nothing at the end, so there are no words to hold."))
        return
    rows = lines_of(measured_at(bench, moments, *texts), block, layer, head)
    steps = np.array([moment.step for moment in moments])
    for column, (key, (question, names)) in zip(st.columns(3), GROUPS.items(), strict=True):
        with column:
            _picture(bench, key, say(question), rows, steps, names, now)
    layout.quiet(
        say(
            "On this sentence and the final translation, special tokens left out; the table has "
            "chance beside each number. One sentence has no interval."
        )
    )
    _table(bench, rows, now)


def _picture(
    bench: Bench,
    key: str,
    question: str,
    rows: pd.DataFrame,
    steps: np.ndarray,
    names: Sequence[str],
    now: int,
) -> None:
    known = [name for name in names if rows[name].notna().any()]
    lines = [
        Curve(say(MEASURE_BY_NAME[name].title), steps, rows[name].to_numpy(float), marked=now)
        for name in known
    ]
    if not lines:
        layout.heading(question, 3)
        layout.quiet(say("None of these can be asked of this head on this sentence."))
        return
    least = min(0.0, float(np.nanmin(rows[known].to_numpy(float))))
    silent = [say(MEASURE_BY_NAME[name].title) for name in names if name not in known]
    caption = say("Without a unit, at most 1.")
    if len(known) == 1:  # one line has no legend
        caption = f"{say(MEASURE_BY_NAME[known[0]].title)} · {caption}"
    if silent:
        caption += " " + say("Nobody could be asked: {names}.", names=", ".join(silent))
    bench.chart(
        f"measures-{key}",
        question,
        lambda: views.curves(
            lines,
            say("updates"),
            say("share"),
            caption,
            log="x",
            least=least,
            most=1,
            height=360,
            dark=bench.dark,
        ),
    )


def _table(bench: Bench, rows: pd.DataFrame, now: int) -> None:
    """Draw a table: each measure at the first, the current and the last snapshot; chance; rows."""
    first, row, last = rows.iloc[0], rows.iloc[now], rows.iloc[-1]
    names = [name for _, group in GROUPS.values() for name in group]
    lines = [
        (
            say(MEASURE_BY_NAME[name].title),
            *(_number(one[name]) for one in (first, row, last)),
            _number(row[f"{name}_chance"]),
            numeral(int(row[f"{name}_rows"]), ","),
        )
        for name in names
        if rows[name].notna().any()
    ]
    heads = (
        say("measure"),
        say("at first"),
        say("here"),
        say("at the end"),
        say("chance"),
        say("rows"),
    )
    with st.container(key="fold-measures"):
        bench.table(heads, lines)


def _number(value: float) -> str:
    return DASH if np.isnan(value) else f"{value:.2f}"
