"""Registry of head measures over rows of words, in the order of the table's columns.

`stacked.measure` computes them for many heads together. `copying` and `ov_copying` also need model
weights and are computed in `values`. The numbers of `trace.heads` (entropy in bits, distance in
tokens) have another registry, `core.head_metrics`, since the probe computes them by blocks of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...i18n import mark


@dataclass(frozen=True)
class HeadMeasure:
    """Measure of a head, and its rule for a role.

    Attributes:
        name: Column in the tables of `metrics`, in atlas files and in links.
        key: Name that differs from all measures of `core.head_metrics`: ``entropy_share`` here,
            ``entropy_bits`` there.
        definition: Formula, rows that count, source.
        title: Title on the pages.
        question: Question and usable rows, for the pages.
        group: Position, parked attention, or content.
        threshold: Smallest value for a role of this name.
        shuffled: Part that the null shuffles, ids or rows; None if chance is the null.
        low: Lower end of the range; the upper one is 1.
        unit: Unit of the value; all are shares.
    """

    name: str
    key: str
    definition: str
    title: str
    question: str
    group: Literal["looks", "parks", "finds"]
    threshold: float | None = None
    shuffled: Literal["ids", "rows"] | None = None
    low: float = 0.0
    unit: str = "share"


#: M1 to M15. ``A'`` are the weights of the view, ``n_i`` the keys that row i may look at in it.
MEASURES: tuple[HeadMeasure, ...] = (
    HeadMeasure(
        "entropy",
        "entropy_share",
        "M1: ``-sum A' ln A' / ln n_i``, 0 ln 0 = 0; 1 for a uniform head of any length. Rows of "
        "words. Shannon 1948.",
        title=mark("spread"),
        question=mark("entropy of a row, divided by that of looking at all its words alike"),
        group="parks",
    ),
    HeadMeasure(
        "confidence",
        "confidence",
        "M2: a row's largest raw weight, end tokens left out; uniform 1/n_i. Rows of words. Voita "
        "et al. 2019, section 4.",
        title=mark("confidence"),
        question=mark("the largest weight of a row, the end of the sentence left out"),
        group="parks",
    ),
    HeadMeasure(
        "distance",
        "distance_share",
        "M3: ``sum A' |j - i| / max over K(i) of |j - i|``; about .5 for a uniform head. Rows of "
        "words, self-attention.",
        title=mark("distance"),
        question=mark("how far away it looks, of as far as the row allows"),
        group="looks",
    ),
    HeadMeasure(
        "previous",
        "previous",
        "M4: ``A'[i, i-1]``; uniform 1/n_i. Rows of words whose token before is a word; under a "
        "causal mask not row 1, whose token before is also the first. Self-attention. Clark et al. "
        "2019, section 3.1.",
        threshold=0.5,
        shuffled="rows",
        title=mark("previous"),
        question=mark("weight on the word before; rows that have one"),
        group="looks",
    ),
    HeadMeasure(
        "self",
        "self",
        "M4: ``A'[i, i]``, otherwise as `previous`.",
        threshold=0.5,
        shuffled="rows",
        title=mark("itself"),
        question=mark("weight on the word itself"),
        group="looks",
    ),
    HeadMeasure(
        "next",
        "next",
        "M4: ``A'[i, i+1]``, otherwise as `previous`; never asked under a causal mask.",
        threshold=0.5,
        shuffled="rows",
        title=mark("next"),
        question=mark("weight on the word after; where later words are seen"),
        group="looks",
    ),
    HeadMeasure(
        "positional",
        "positional",
        "M5: for each offset the share of rows whose largest weight sits there; the best offset "
        "counts. Equal weights share their row, end tokens are left out. Rows of words where that "
        "key is there. Voita et al. 2019, section 5.2.1.",
        threshold=0.9,
        shuffled="rows",
        title=mark("fixed offset"),
        question=mark("share of rows whose largest weight stands at one and the same offset"),
        group="looks",
    ),
    HeadMeasure(
        "sink",
        "sink_words",
        "M6: weight on the first token, ``A[i, 0]``, in both views; uniform 1/n_i. Rows of words; "
        "under a causal mask from row 2. Gu et al. 2024, section 3.",
        title=mark("first token"),
        question=mark("weight on the first token, which is often parked attention"),
        group="parks",
    ),
    HeadMeasure(
        "special",
        "special",
        "M7: raw weight on special tokens (BOS, EOS, CLS, SEP, mask). Rows of words that may look "
        "at one of them and at another key. Clark et al. 2019.",
        title=mark("special tokens"),
        question=mark("weight on start, end and the like"),
        group="parks",
    ),
    HeadMeasure(
        "null",
        "null",
        "M8: ``1 - norm(sum over sinks A f) / norm(sum A f)``, ``f_j = v_j W_O``; sinks are the "
        "first and the special tokens. Rows of words with a mass above .3 on sinks. After "
        "Kobayashi et al. 2020, section 3.",
        title=mark("does nothing"),
        question=mark("share of the parked weight that adds nothing; rows that park over .3"),
        group="parks",
    ),
    HeadMeasure(
        "duplicate",
        "duplicate",
        "M9: ``sum A'[i, j]`` over ``id_j = id_i``, ``j != i``; uniform #D_i/n_i. Rows of words "
        "with such a place, ``#D_i <= n_i / 4``; self-attention. Wang et al. 2022, section 3.",
        threshold=0.5,
        shuffled="ids",
        title=mark("same word"),
        question=mark("weight on other places of the same word; rows whose word stands twice"),
        group="finds",
    ),
    HeadMeasure(
        "induction",
        "induction",
        "M10: ``sum A'[i, j]`` over ``id_{j-1} = id_i``, ``j - 1 < i``; uniform #S_i/n_i. Rows of "
        "words with such a key other than themselves, not inside a run of one token, ``#S_i <= n_i "
        "/ 4``; self-attention. Olsson et al. 2022, prefix matching.",
        threshold=0.5,
        shuffled="ids",
        title=mark("what followed"),
        question=mark(
            "weight on what followed the same word before; rows whose word stood earlier"
        ),
        group="finds",
    ),
    HeadMeasure(
        "copying",
        "copying",
        "M11: see `values.copying`.",
        threshold=0.5,
        title=mark("copies"),
        question=mark(
            "share of rows in which the word looked at is among the five that the head speaks for"
        ),
        group="finds",
    ),
    HeadMeasure(
        "ov_copying",
        "ov_copying",
        "M12: see `values.ov_values`.",
        low=-1.0,
        title=mark("copies, by weights"),
        question=mark("from -1 to 1, from the weights alone: does it speak for what it reads?"),
        group="finds",
    ),
    HeadMeasure(
        "monotonicity",
        "monotonicity",
        "M13: share of pairs of rows i < i' whose expected source positions ``sum j A'`` ascend; 1 "
        "from left to right, 0 reversed; ties count .5. What is counted are pairs of rows of "
        "words. Cross-attention.",
        title=mark("left to right"),
        question=mark("share of pairs of target words that look at source words in their order"),
        group="looks",
    ),
    HeadMeasure(
        "diagonality",
        "diagonality",
        "M14: ``1 - D(A) / D(uniform)``, ``D = mean sum A' |i/Tq - j/Tk|`` with positions from 0 "
        "to 1; a reversed order is below 0 and is not cut. Rows of words, three tokens at least on "
        "both sides. Cross-attention.",
        low=-1.0,
        title=mark("diagonal"),
        question=mark(
            "how close to the diagonal: 1 on it, 0 as if it looked everywhere, below 0 reversed"
        ),
        group="looks",
    ),
    HeadMeasure(
        "coverage",
        "coverage",
        "M15: ``mean over j of min(1, cov_j Tk / Tq)``, how much of the source is read; uniform 1. "
        "What is counted are source words. Cross-attention. Tu et al. 2016.",
        title=mark("coverage"),
        question=mark("how much of the source is looked at by some target word"),
        group="parks",
    ),
)

MEASURE_BY_NAME = {measure.name: measure for measure in MEASURES}


def settled(sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and rows of each head, ``[..., head]``; NaN without rows.

    For measures at several offsets ``[..., head, offset]`` the best offset counts. Offsets with
    fewer than half as many rows as another are excluded, since few rows reach extremes by chance.
    """
    known = counts > 0
    means = np.where(known, sums / np.where(known, counts, 1.0), np.nan)
    if means.shape[-1] == 1:
        return means[..., 0], counts[..., 0]
    enough = known & (counts >= counts.max(-1, keepdims=True) / 2)
    best = np.where(enough, means, -1.0).argmax(-1)[..., None]
    return (
        np.take_along_axis(means, best, -1)[..., 0],
        np.take_along_axis(counts, best, -1)[..., 0],
    )
