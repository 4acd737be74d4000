"""Scores of output words or classes in two runs, in the unit of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...core.numerics import ENDS, best_span, scores_of_logits, unit_of
from ...core.trace import Trace

COLUMNS = ("sentence", "output", "a", "b", "difference", "unit")
SHOWN = 5  # outputs named in a note


def token_scores(run: Trace, side: str) -> np.ndarray | None:
    """Return a run's log-probability in nats of each token of a side, ``[token]``.

    NaN for tokens that no row predicts; None if no row predicts any of this side.
    """
    if run.produced is None or run.task or run.marks_answer:
        return None
    lone = run.target is None
    if (side == "source") != lone:
        return None
    tokens = run.source if lone else run.target
    assert tokens is not None
    with np.errstate(divide="ignore"):
        logs = np.log(run.produced.probability.astype(np.float64))
    found = np.full(len(tokens), np.nan)
    if run.maps == ("encoder",):  # each row predicts its own token
        found[: len(logs)] = logs[: len(found)]
    else:
        count = min(len(logs), len(found) - 1)
        found[1 : count + 1] = logs[:count]
    return found


def word_score(scores: np.ndarray | None, tokens: Sequence[int]) -> float:
    """Return the score of a word, the sum over its tokens; NaN where there is none."""
    if scores is None or not tokens or max(tokens) >= len(scores):
        return float("nan")
    return float(scores[list(tokens)].sum())


def output_table(pairs: Sequence[tuple[Trace, Trace]]) -> pd.DataFrame:
    """Return the score of each class, or of both ends of an answer, in two runs."""
    rows = []
    for number, (a, b) in enumerate(pairs):
        if a.logits is None or b.logits is None or a.logits.shape != b.logits.shape:
            continue
        if a.marks_answer and b.marks_answer:
            rows += [(number, *row) for row in _answers(a, b)]
        elif a.logits.ndim == 1:
            labels = a.manifest.get("labels") or ()
            both = (scores_of_logits(run, a.task) for run in (a.logits, b.logits))
            for n, (x, y) in enumerate(zip(*both, strict=True)):
                name = labels[n] if n < len(labels) else str(n)
                rows.append((number, name, float(x), float(y), float(y - x), unit_of(a.task)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _answers(a: Trace, b: Trace) -> list[tuple[str, float, float, float, str]]:
    assert a.logits is not None and b.logits is not None
    one, other = (scores_of_logits(run, "") for run in (a.logits, b.logits))
    spans = best_span(a.logits), best_span(b.logits)
    rows = []
    for line, end in enumerate(ENDS):
        for token in dict.fromkeys(span[line] for span in spans):
            x, y = float(one[line, token]), float(other[line, token])
            rows.append((f"{end}: {a.source.labels[token]}", x, y, y - x, unit_of("")))
    return rows


def said_of_outputs(table: pd.DataFrame) -> str:
    """Return a sentence on the outputs of the first input; empty without any."""
    first = table[table["sentence"] == 0]
    order = first["difference"].abs().sort_values(ascending=False, kind="stable").index
    told = [f"{r.output} {r.a:+.3f} to {r.b:+.3f}" for r in first.loc[order[:SHOWN]].itertuples()]
    if not told:
        return ""
    return f"Output of the first input, a to b, in {first['unit'].iloc[0]}: {', '.join(told)}."
