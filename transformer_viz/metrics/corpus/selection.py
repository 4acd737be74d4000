"""Which sentences are kept as examples of a head: the best, and typical ones of each band.

Both rules depend on the sentences alone, not on the order or the parts in which they came: of two
that are equal the one with the smaller number is kept, and typical ones are those with the smallest
hash (bottom-k sampling, Cohen and Kaplan 2007).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

TOP = 3  # best sentences of a head, by a measure
TYPICAL = 2  # sentences of each band
BANDS = 4  # equal parts of 0..1; what lies below is in the first
SHORTEST, LONGEST = 6, 40  # tokens of a sentence that may be an example


@dataclass(frozen=True, order=True)
class Choice:
    """One sentence that is an example of a head by one measure, ``kind`` top or typical."""

    measure: str
    kind: str
    band: int
    sentence: int
    score: float
    draw: int


def draw_of(seed: int, sentence: int) -> int:
    """A sentence's hash: a whole number below 2^63 that no order changes."""
    words = f"{seed}:{sentence}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big") >> 1


def band_of(score: np.ndarray) -> np.ndarray:
    """The band of each score, 0 to 3."""
    return np.clip(np.floor(score * BANDS), 0, BANDS - 1).astype(np.int64)


def choose(
    scores: np.ndarray, sentences: np.ndarray, draws: np.ndarray, measures: tuple[str, ...]
) -> list[list[Choice]]:
    """The examples of each head.

    Args:
        scores: ``[sentence, head, measure]``, NaN where a sentence has no row.
        sentences: their numbers, ``[sentence]``.
        draws: their hashes, ``[sentence]``.
        measures: the names on the last axis.
    """
    found: list[list[Choice]] = [[] for _ in range(scores.shape[1])]
    if not len(scores):
        return found

    def take(order: np.ndarray, there: np.ndarray, most: int, kind: str, band: int) -> None:
        """The first few along axis 0 of those that are there."""
        first = there & (np.cumsum(there, axis=0) <= most)
        for place, head, measure in zip(*np.nonzero(first), strict=True):
            n = order[place] if order.ndim == 1 else order[place, head, measure]
            score = float(scores[n, head, measure])
            draw = 0 if kind == "top" else int(draws[n])
            found[head].append(
                Choice(measures[measure], kind, band, int(sentences[n]), score, draw)
            )

    by_number = np.argsort(sentences, kind="stable")
    ranked = scores[by_number]
    order = np.argsort(-ranked, axis=0, kind="stable")[:TOP]  # NaN comes last
    there = np.isfinite(np.take_along_axis(ranked, order, 0))
    take(by_number[order], there, TOP, "top", 0)
    by_draw = np.lexsort((sentences, draws))
    bands = np.where(np.isfinite(scores), band_of(np.nan_to_num(scores)), -1)[by_draw]
    for band in range(BANDS):
        take(by_draw, bands == band, TYPICAL, "typical", band)
    return found


def best(choices: list[Choice]) -> list[Choice]:
    """Those that remain of the choices of several parts, in the order of `Choice`."""
    kept: list[Choice] = []
    groups: dict[tuple[str, str, int], list[Choice]] = {}
    for one in choices:
        groups.setdefault((one.measure, one.kind, one.band), []).append(one)
    for (_, kind, _), group in groups.items():
        if kind == "top":
            kept += sorted(group, key=lambda one: (-one.score, one.sentence))[:TOP]
        else:
            kept += sorted(group, key=lambda one: (one.draw, one.sentence))[:TYPICAL]
    return sorted(kept)
