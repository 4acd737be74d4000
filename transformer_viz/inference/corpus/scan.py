"""Scan of one corpus shard: a pure function of the model and its sentences.

Sentences of one length form a batch, and batches depend on the shard only. So a shard gives
bit-identical numbers in every process on one kind of machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...capture import CaptureRequest
from ...checkpoints.common.model import Model
from ...metrics.corpus.selection import draw_of
from ...metrics.corpus.totals import Totals, totals_of
from ...metrics.head_measures.columns import Sums, scores
from ...metrics.head_measures.rows import GRID
from ..head_metrics.own_weights import OwnWeights
from .blocks import Batch, watched
from .copies import put_circuits, put_copying
from .sentences import batches, read_shard
from .shelf import Example, Shelf
from .stacking import put_measured, stacks

TOGETHER = 512  # sentences measured together
CELLS = 2**22  # weights measured together, over all heads


@dataclass(frozen=True, eq=False)
class Scanned:
    """Result of a shard: sums, examples, refused sentences and timings.

    ``forward`` and ``statistics`` are seconds: for the captured model runs, and for all counting.
    """

    heads: tuple[tuple[str, str, int, int], ...]
    totals: Totals
    examples: list[Example]
    sentences: int
    refused: list[tuple[int, str]]
    forward: float = 0.0
    statistics: float = 0.0


def scan(
    model: Model,
    items: Sequence[tuple[int, Any]],
    *,
    view: str,
    seed: int,
    copying_every: int = 1,
    with_weights: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Scanned:
    """Compute all head measures of the numbered sentences ``items`` of one shard.

    Args:
        model: Model to scan.
        items: (number, sentence) pairs.
        view: ``content`` or ``raw``, as in `tv.metrics`.
        seed: Seed of the null orders, and of the choice of typical sentences.
        copying_every: `copying` needs the logits of each head; it is computed for one in so many
            sentences, chosen by hash.
        with_weights: Also compute `ov_copying`, which needs no sentence; set for one shard only.
        on_progress: Called with the number of sentences done.
    """
    before = torch.get_num_threads()
    if model.device == "cpu":
        torch.set_num_threads(1)  # the order of sums must not depend on the number of cores
    try:
        return _Scan(model, view, seed, copying_every, with_weights, on_progress).run(items)
    finally:
        torch.set_num_threads(before)


class _Scan:
    def __init__(
        self,
        model: Model,
        view: str,
        seed: int,
        copying_every: int,
        with_weights: bool,
        on_progress: Callable[[int], None] | None,
    ):
        self.model, self.view, self.seed, self.every = model, view, seed, copying_every
        self.on_progress, self.own, self.with_weights = on_progress, OwnWeights(model), with_weights
        self.forward = self.statistics = 0.0
        self.totals: Totals | None = None
        self.heads: tuple[tuple[str, str, int, int], ...] = ()
        self.shelf = Shelf()
        lone = "decoder" if model.kind == "decoder-only" else "encoder"
        self.request = CaptureRequest(
            scores=lambda site: True,
            qkv=lambda site: self.own.module is not None,
            statistics=False,
            norms=False,
            residuals=False,
            stack=lone,
        )

    def run(self, items: Sequence[tuple[int, Any]]) -> Scanned:
        sentences, refused = read_shard(self.model, items)
        waiting: list[Batch] = []
        done = 0
        counted = sum(int(self.model.size("heads")) * 2 for _ in range(6))
        for group in batches(sentences, counted):
            begin = time.perf_counter()
            batch = watched(self.model, group, self.request)
            self.forward += time.perf_counter() - begin
            full = sum(len(one.sentences) for one in waiting) + len(group) > TOGETHER
            if waiting and (full or sum(b.cells for b in [*waiting, batch]) > CELLS):
                self._count(waiting)
                waiting = []
            waiting.append(batch)
            done += len(group)
            if self.on_progress is not None:
                self.on_progress(done)
        if waiting:
            self._count(waiting)
        begin = time.perf_counter()
        examples = self.shelf.examples(self.seed)
        self.statistics += time.perf_counter() - begin
        whole = Totals.empty(0) if self.totals is None else self.totals
        return Scanned(self.heads, whole, examples, done, refused, self.forward, self.statistics)

    def _count(self, some: Sequence[Batch]) -> None:
        """Add the results of some batches."""
        begin = time.perf_counter()
        if self.totals is None:
            self.heads = tuple(
                (b.site.stack, b.site.block, b.site.layer, head)
                for b in some[0].blocks
                for head in range(b.count)
            )
        sentences = [one for batch in some for one in batch.sentences]
        sums = Sums.empty(len(sentences), len(self.heads))
        for pieces in stacks(some):
            weights = put_measured(sums, pieces, self.own, self.view, self.seed)
            self.shelf.keep(pieces, weights)
        if self.own.module is not None:
            self._put_copies(sums, some)
        self.shelf.score(sentences, scores(sums, GRID))
        found = totals_of(sums)
        self.totals = found if self.totals is None else self.totals.plus(found)
        self.statistics += time.perf_counter() - begin

    def _put_copies(self, sums: Sums, some: Sequence[Batch]) -> None:
        if self.totals is None and self.with_weights:
            put_circuits(sums, some[0], self.own)
        at = 0
        for batch in some:
            for place, one in enumerate(batch.sentences):
                if draw_of(self.seed, one.number) % self.every == 0:
                    put_copying(sums, at, batch, place, self.own, self.view)
                at += 1
