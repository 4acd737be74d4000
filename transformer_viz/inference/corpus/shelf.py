"""Maps of candidate sentences, stored small, and the selection of examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ...metrics.corpus.selection import LONGEST, SHORTEST, Choice, choose, draw_of
from ...metrics.head_measures.columns import SHOWN
from .blocks import side
from .sentences import Sentence
from .stacking import Piece

SHADES = 255  # levels of a stored weight


@dataclass(frozen=True, eq=False)
class Example:
    """Example sentence of a head, with its map in 255 shades, ``[query, key]`` uint8."""

    head: int
    sentence: int
    text: str
    target: str
    query: tuple[str, ...]
    key: tuple[str, ...]
    weights: np.ndarray
    chosen: tuple[Choice, ...]


@dataclass(eq=False)
class Shelf:
    """Maps and scores of candidate sentences; examples are selected at the end of a shard."""

    maps: dict[int, list[tuple[int, str, str, np.ndarray]]] = field(default_factory=dict)
    known: list[tuple[Sentence, np.ndarray]] = field(default_factory=list)

    def keep(self, pieces: Sequence[Piece], weights: np.ndarray) -> None:
        """Store the maps of sentences that are neither very short nor very long."""
        blocks = pieces[0].blocks
        sentences = [one for piece in pieces for one in piece.sentences]
        place = [n for n, one in enumerate(sentences) if fits(one)]
        if not place:
            return
        maps = shaded(weights if len(place) == len(sentences) else weights[place])
        for one, own in zip((sentences[n] for n in place), maps, strict=True):
            row = (blocks[0].first, blocks[0].query, blocks[0].key, own)
            self.maps.setdefault(one.number, []).append(row)

    def score(self, sentences: Sequence[Sentence], scores: np.ndarray) -> None:
        """Store the sentences' means of each measure, ``[sentence, head, measure]``."""
        self.known += [(one, row) for one, row in zip(sentences, scores, strict=True) if fits(one)]

    def of(self, number: int, head: int) -> tuple[str, str, np.ndarray]:
        """Return the query and key sentence of a head's map, and the map."""
        first, query, key, maps = max(
            (one for one in self.maps[number] if one[0] <= head), key=lambda one: one[0]
        )
        return query, key, maps[head - first]

    def examples(self, seed: int) -> list[Example]:
        """Return the example sentences of all heads."""
        if not self.known:
            return []
        known = sorted(self.known, key=lambda pair: pair[0].number)
        numbers = np.array([one.number for one, _ in known], np.int64)
        draws = np.array([draw_of(seed, n) for n in numbers.tolist()], np.int64)
        chosen = choose(np.stack([row for _, row in known]), numbers, draws, SHOWN)
        by_number = {one.number: one for one, _ in known}
        found = []
        for head, choices in enumerate(chosen):
            of = sorted(choices, key=lambda c: (c.sentence, c))
            for number, group in groupby(of, key=lambda c: c.sentence):
                query, key, weights = self.of(number, head)
                one = by_number[number]
                pieces = (side(one, query).pieces, side(one, key).pieces)
                words = (one.text, one.target or "", *pieces)
                found.append(Example(head, number, *words, weights, tuple(group)))
        return found


def fits(one: Sentence) -> bool:
    """Return True if a sentence may be an example."""
    return SHORTEST <= len(one.query) <= LONGEST


def shaded(weights: np.ndarray) -> np.ndarray:
    """Return weights as integers, with 255 for 1."""
    found = weights * np.float32(SHADES)
    np.rint(found, out=found)
    if not np.isfinite(found.sum()):
        found = np.nan_to_num(found)
    return np.clip(found, 0, SHADES, out=found).astype(np.uint8)
