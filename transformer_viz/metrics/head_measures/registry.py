"""Every measure of a head over rows of words, one entry each, in the order of the table's columns.

`stacked.measure` computes them for many heads at once; `copying` and `ov_copying` need the model's
weights beside the maps and are computed in `values`. The numbers of `trace.heads` (entropy in bits,
distance in tokens) are a registry of their own, `core.head_metrics`: the probe needs them row block
by row block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class HeadMeasure:
    """A number about a head, and when it gives the head a role.

    Attributes:
        name: the column of the tables of `metrics`, of atlas files and of links.
        key: the name that no measure of `core.head_metrics` shares: ``entropy_share`` here,
            ``entropy_bits`` there.
        definition: formula, rows that are asked, source.
        unit: of the value; all are shares.
        low: the lower end of its range; the upper one is 1.
        threshold: a head with at least this may bear the name as a role.
        shuffled: what the null puts in another order, ids or rows; None where chance is the null.
    """

    name: str
    key: str
    definition: str
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
    ),
    HeadMeasure(
        "confidence",
        "confidence",
        "M2: a row's largest raw weight, end tokens left out; uniform 1/n_i. Rows of words. Voita "
        "et al. 2019, section 4.",
    ),
    HeadMeasure(
        "distance",
        "distance_share",
        "M3: ``sum A' |j - i| / max over K(i) of |j - i|``; about .5 for a uniform head. Rows of "
        "words, self-attention.",
    ),
    HeadMeasure(
        "previous",
        "previous",
        "M4: ``A'[i, i-1]``; uniform 1/n_i. Rows of words whose token before is a word; under a "
        "causal mask not row 1, whose token before is also the first. Self-attention. Clark et al. "
        "2019, section 3.1.",
        0.5,
        "rows",
    ),
    HeadMeasure("self", "self", "M4: ``A'[i, i]``, otherwise as `previous`.", 0.5, "rows"),
    HeadMeasure(
        "next",
        "next",
        "M4: ``A'[i, i+1]``, otherwise as `previous`; never asked under a causal mask.",
        0.5,
        "rows",
    ),
    HeadMeasure(
        "positional",
        "positional",
        "M5: for each offset the share of rows whose largest weight sits there; the best offset "
        "counts. Equal weights share their row, end tokens are left out. Rows of words where that "
        "key is there. Voita et al. 2019, section 5.2.1.",
        0.9,
        "rows",
    ),
    HeadMeasure(
        "sink",
        "sink_words",
        "M6: weight on the first token, ``A[i, 0]``, in both views; uniform 1/n_i. Rows of words; "
        "under a causal mask from row 2. Gu et al. 2024, section 3.",
    ),
    HeadMeasure(
        "special",
        "special",
        "M7: raw weight on special tokens (BOS, EOS, CLS, SEP, mask). Rows of words that may look "
        "at one of them and at another key. Clark et al. 2019.",
    ),
    HeadMeasure(
        "null",
        "null",
        "M8: ``1 - norm(sum over sinks A f) / norm(sum A f)``, ``f_j = v_j W_O``; sinks are the "
        "first and the special tokens. Rows of words with a mass above .3 on sinks. After "
        "Kobayashi et al. 2020, section 3.",
    ),
    HeadMeasure(
        "duplicate",
        "duplicate",
        "M9: ``sum A'[i, j]`` over ``id_j = id_i``, ``j != i``; uniform #D_i/n_i. Rows of words "
        "with such a place, ``#D_i <= n_i / 4``; self-attention. Wang et al. 2022, section 3.",
        0.5,
        "ids",
    ),
    HeadMeasure(
        "induction",
        "induction",
        "M10: ``sum A'[i, j]`` over ``id_{j-1} = id_i``, ``j - 1 < i``; uniform #S_i/n_i. Rows of "
        "words with such a key other than themselves, not inside a run of one token, ``#S_i <= n_i "
        "/ 4``; self-attention. Olsson et al. 2022, prefix matching.",
        0.5,
        "ids",
    ),
    HeadMeasure("copying", "copying", "M11: see `values.copying`.", 0.5),
    HeadMeasure("ov_copying", "ov_copying", "M12: see `values.ov_values`.", low=-1.0),
    HeadMeasure(
        "monotonicity",
        "monotonicity",
        "M13: share of pairs of rows i < i' whose expected source positions ``sum j A'`` ascend; 1 "
        "from left to right, 0 reversed; ties count .5. What is counted are pairs of rows of "
        "words. Cross-attention.",
    ),
    HeadMeasure(
        "diagonality",
        "diagonality",
        "M14: ``1 - D(A) / D(uniform)``, ``D = mean sum A' |i/Tq - j/Tk|`` with positions from 0 "
        "to 1; a reversed order is below 0 and is not cut. Rows of words, three tokens at least on "
        "both sides. Cross-attention.",
        low=-1.0,
    ),
    HeadMeasure(
        "coverage",
        "coverage",
        "M15: ``mean over j of min(1, cov_j Tk / Tq)``, how much of the source is read; uniform 1. "
        "What is counted are source words. Cross-attention. Tu et al. 2016.",
    ),
)


def settled(sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and rows of each head, ``[..., head]``; NaN where no row was asked.

    Of measures that were taken at several offsets ``[..., head, offset]`` the best offset counts;
    one for which fewer than half as many rows could be asked as for another takes no part, as few
    rows reach extremes by luck.
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
