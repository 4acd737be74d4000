"""Selection of example sentences for a head: the best, and typical ones of each band.

Both rules depend on the sentences only, not on their order or split. Ties go to the sentence with
the smaller number; typical ones have the smallest hash (bottom-k sampling, Cohen and Kaplan 2007).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.sites import Site

TOP = 3  # best sentences per head and measure
TYPICAL = 2  # sentences per band
BANDS = 4  # equal parts of 0..1; lower values are in the first
SHORTEST, LONGEST = 6, 40  # length limits of an example, in tokens


@dataclass(frozen=True, order=True)
class Choice:
    """Example sentence of a head for one measure; ``kind`` is top or typical."""

    measure: str
    kind: str
    band: int
    sentence: int
    score: float
    draw: int


def draw_of(seed: int, sentence: int) -> int:
    """Return a sentence's hash: an integer below 2^63, independent of order."""
    words = f"{seed}:{sentence}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "big") >> 1


def null_draw(seed: int, sentence: int, site: Site) -> int:
    """Return the seed of the null's orders, shared by all layers of a kind."""
    return draw_of(seed, sentence) ^ sum(f"{site.stack} {site.block}".encode())


def band_of(score: np.ndarray) -> np.ndarray:
    """Return the band of each score, 0 to 3."""
    return np.clip(np.floor(score * BANDS), 0, BANDS - 1).astype(np.int64)


def choose(
    scores: np.ndarray, sentences: np.ndarray, draws: np.ndarray, measures: tuple[str, ...]
) -> list[list[Choice]]:
    """Return the examples of each head.

    Args:
        scores: ``[sentence, head, measure]``, NaN where a sentence has no row.
        sentences: Their numbers, ``[sentence]``.
        draws: Their hashes, ``[sentence]``.
        measures: Names on the last axis.
    """
    count, heads, names = scores.shape
    found: list[list[Choice]] = [[] for _ in range(heads)]
    if not count:
        return found
    flat = np.ascontiguousarray(
        scores.reshape(count, heads * names).T
    )  # [head and measure, sentence]

    def take(order: np.ndarray, left: np.ndarray, none: float, most: int, words: Any) -> None:
        """Select the largest above ``none`` along the last axis, ``most`` times."""
        kind, band = words
        for _ in range(most):
            place = left.argmax(1)
            there = np.flatnonzero(left[np.arange(len(left)), place] > none)
            for row in there.tolist():
                n = order[place[row]]
                name, draw = measures[row % names], 0 if kind == "top" else int(draws[n])
                one = Choice(name, kind, band, int(sentences[n]), float(flat[row, n]), draw)
                found[row // names].append(one)
            left[there, place[there]] = none

    known = np.isfinite(flat)
    by_number = np.argsort(sentences, kind="stable")
    take(by_number, np.where(known, flat, -np.inf)[:, by_number], -np.inf, TOP, ("top", 0))
    by_draw = np.lexsort((sentences, draws))
    bands = np.where(known, band_of(np.nan_to_num(flat)), -1).astype(np.int8)[:, by_draw]
    for band in range(BANDS):
        take(by_draw, (bands == band).view(np.int8), 0, TYPICAL, ("typical", band))
    return found


def best(choices: list[Choice]) -> list[Choice]:
    """Return the remaining choices of several parts, in the order of `Choice`."""
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
