"""Summary of the removal of single words, in one sentence."""

from __future__ import annotations

import math
from html import escape

import pandas as pd

from ...i18n import numeral, say
from ..engine.why_jobs import Answers

LEAST = 0.1  # minimum loss in nats of a deciding word: a tenth of the probability


def verdict(found: Answers) -> str:
    """Return the effect of removing single words, in one sentence as HTML.

    In probabilities, or in scores for a regression; empty without measurements.
    """
    removal = found.found.get("removal")
    if removal is None or found.value is None:
        return ""
    words = removal.values[~removal.values["special"]]
    if found.probability is None:
        return _of_score(found, words)
    most = words.sort_values("value", ascending=False)[["label", "value"]].head(2)
    if len(most) < 2:
        return ""
    (first, one), (second, other) = most.itertuples(index=False)
    if one < LEAST:
        said = say(
            "No single word decides: without any one of them “{word}” keeps {share} or more.",
            word=found.word,
            share=_share(found.probability, one),
        )
    else:
        said = say(
            "“{word}” hangs most on “{first}”: without that word its probability is {share}; "
            "without “{second}” it is {other}.",
            word=found.word,
            first=first,
            share=_share(found.probability, one),
            second=second,
            other=_share(found.probability, other),
        )
    return f'<p class="tv-say" data-what="why-verdict">{escape(said)}</p>'


def _of_score(found: Answers, words: pd.DataFrame) -> str:
    """Return the same for a score, which may rise or fall."""
    order = words["value"].abs().sort_values(ascending=False).index[:2]
    if len(order) < 2 or found.value is None:
        return ""
    (first, one), (second, other) = words.loc[order, ["label", "value"]].itertuples(index=False)
    said = say(
        "The score of “{word}” is {score:.3f}. Without “{first}” it is {without:.3f}; without "
        "“{second}” it is {other:.3f}. No other word moves it more.",
        word=found.word,
        score=found.value,
        first=first,
        without=found.value - one,
        second=second,
        other=found.value - other,
    )
    return f'<p class="tv-say" data-what="why-verdict">{escape(said)}</p>'


def _share(probability: float, lost: float) -> str:
    """Return the probability left after a loss of ``lost`` nats."""
    return numeral(probability * math.exp(-lost), ".1%")
