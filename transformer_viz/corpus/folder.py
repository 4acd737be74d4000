"""Reader of an atlas folder: the table of heads, histograms, examples, and progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..metrics.corpus.selection import BANDS, band_of
from ..metrics.corpus.totals import Totals, table
from ..metrics.head_measures.columns import NAMES, PLACES, edges
from .merging import ATLAS, CHOSEN
from .parts import (
    PARTS,
    Head,
    choices_of,
    finished,
    layers_of,
    opened,
    read_examples,
    read_sums,
)
from .plan import Plan, read_plan


@dataclass(frozen=True, eq=False)
class HeadExample:
    """Example sentence of a head.

    Attributes:
        query, key: Pieces of both sides.
        weights: ``[query, key]`` float32 in steps of 1/255.
        score: Score by the measure.
        kind: ``top`` or ``typical``.
    """

    sentence: int
    text: str
    target: str
    query: tuple[str, ...]
    key: tuple[str, ...]
    weights: np.ndarray
    score: float
    kind: str


@dataclass(frozen=True, eq=False)
class AtlasFolder:
    """A finished or unfinished folder of ``transformer-viz atlas``.

    ``plan`` lists the measurements; ``progress`` the part that is done. ``table`` has the columns
    of `tv.metrics` over sentences (``tv.roles`` reads it). ``card`` has the data to repeat the run.
    """

    path: Path
    plan: Plan

    @property
    def ready(self) -> bool:
        """True if all parts are merged."""
        return (self.path / ATLAS).is_file() and (self.path / CHOSEN).is_file()

    @property
    def progress(self) -> tuple[int, int]:
        """Sentences in finished parts, and in all, from file names only."""
        names = {path.name for path in (self.path / PARTS).glob("part-*.parquet")}
        there = [s for s in self.plan.shards if f"part-{s.number:05d}.parquet" in names]
        return sum(shard.count for shard in there), self.plan.sentences

    def check(self) -> set[int]:
        """Return the finished shards.

        Raises:
            ValueError: A part is truncated, foreign or duplicate. The message names it.
        """
        return finished(self.path, self.plan)

    @cached_property
    def _sums(self) -> tuple[list[Head], Totals]:
        if not self.ready:
            done, total = self.progress
            raise ValueError(
                f"{str(self.path)!r} is not finished: {done:,} of {total:,} sentences. The same "
                "command goes on where it stopped."
            )
        opened(self.path / ATLAS, self.plan)
        return read_sums(self.path / ATLAS)

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table of all heads with the columns of ``tv.metrics(model, sentences)``."""
        heads, totals = self._sums
        return table(heads, totals)

    @property
    def heads(self) -> list[Head]:
        """Stack, block, layer and head of each head."""
        return self._sums[0]

    @cached_property
    def card(self) -> Mapping[str, object]:
        """Run card: the plan, the numbers of sentences read and refused, and ``rows``.

        ``rows`` is the largest number of rows that any measure used of a head.
        """
        words = opened(self.path / ATLAS, self.plan)
        read = {"read": int(words["sentences"]), "refused": int(words["refused"])}
        read["rows"] = int(self._sums[1].n.max(initial=0))
        return self.plan.card() | read

    def histogram(self, head: Head, measure: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the histogram of sentence means of a measure: counts ``[256]``, edges ``[257]``.

        For ``positional`` the offset with the largest mean is used.

        Raises:
            LookupError: No such head or measure. The message names the known ones.
        """
        if measure not in NAMES:
            raise LookupError(f"There is no measure {measure!r}; choose of {', '.join(NAMES)}.")
        heads, totals = self._sums
        number, at = _place(heads, head), PLACES[measure]
        n = np.maximum(totals.n[number, at], 1)
        column = at.start + int((totals.sum[number, at] / n).argmax())
        return totals.bins[number, column], edges(measure)

    def examples(self, head: Head, measure: str) -> list[HeadExample]:
        """Return the sentences with the highest score of a head, then typical ones.

        Typical sentences come from the band that contains the mean, sampled by hash.
        """
        number = _place(self.heads, head)
        mean = self.table[measure].to_numpy()[number]
        band = int(band_of(np.array(mean))) if np.isfinite(mean) else BANDS
        found = []
        for row in read_examples(self.path / CHOSEN, [self._group(head)]):
            if row["head"] != head[3]:
                continue
            for one in choices_of(row):
                if one.measure == measure and (one.kind == "top" or one.band == band):
                    found.append((one, row))
        found.sort(key=lambda pair: (pair[0].kind == "typical", -pair[0].score, pair[0].sentence))
        return [_example(one.score, one.kind, row) for one, row in found]

    def _group(self, head: Head) -> int:
        """Return the row group that holds a layer."""
        return self._groups[head[:3]]

    @cached_property
    def _groups(self) -> dict[tuple[str, str, int], int]:
        opened(self.path / CHOSEN, self.plan)
        return {place: n for n, place in enumerate(layers_of(self.path / CHOSEN))}


def _place(heads: list[Head], head: Head) -> int:
    if head not in heads:
        raise LookupError(f"This atlas has no head {head}; it has {len(heads)} heads.")
    return heads.index(head)


def _example(score: float, kind: str, row: dict[str, Any]) -> HeadExample:
    shape = (len(row["query"]), len(row["key"]))
    weights = np.zeros(shape[0] * shape[1], np.float32)
    weights[row["indices"]] = np.array(row["values"], np.float32) / 255
    return HeadExample(
        row["sentence"],
        row["text"],
        row["target"],
        tuple(row["query"]),
        tuple(row["key"]),
        weights.reshape(shape),
        score,
        kind,
    )


def open_atlas(path: str | Path) -> AtlasFolder:
    """Return the atlas in a folder; only its plan is read at first.

    Raises:
        ValueError: The folder holds no atlas.
    """
    return AtlasFolder(Path(path), read_plan(path))
