"""One shard of a corpus: a pure function of the model and its sentences.

Sentences of one length are one batch, and batches depend on the shard alone, so a shard gives the
same numbers to the last bit in every process on one kind of machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import torch

from ...capture import Capture, CaptureRequest, probe
from ...capture.records import AttentionRecord
from ...checkpoints.common.model import Model
from ...core.numerics import MASK_SCORE
from ...core.sites import Site
from ...core.trace_parts import Tokens
from ...metrics.corpus.columns import SHOWN, Sums, scores
from ...metrics.corpus.selection import LONGEST, SHORTEST, Choice, choose, draw_of
from ...metrics.corpus.stacked import Stacked, measure, put_apart
from ...metrics.corpus.totals import Totals, totals_of
from ...metrics.head_measures.rows import GRID, HeadRows, tally
from ...metrics.head_measures.values import TOP, asked_to_copy
from ..capture_to_numpy import ordered, to_numpy
from ..head_metrics.own_weights import OwnWeights
from .sentences import Sentence, batches, read_shard, together

SHADES = 255  # of a stored weight


@dataclass(frozen=True, eq=False)
class Example:
    """One sentence that is kept for a head, with its map in 255 shades, ``[query, key]`` uint8."""

    head: int
    sentence: int
    text: str
    target: str
    query: tuple[str, ...]
    key: tuple[str, ...]
    weights: np.ndarray
    chosen: tuple[Choice, ...]


@dataclass(frozen=True, eq=False)
class Scanned:
    """What a shard leaves: sums, examples, what could not be read; and how long it took.

    ``forward`` and ``statistics`` are seconds: the watched model, and all that is counted.
    """

    heads: tuple[tuple[str, str, int, int], ...]
    totals: Totals
    examples: list[Example]
    sentences: int
    refused: list[tuple[int, str]]
    forward: float = 0.0
    statistics: float = 0.0


@dataclass(eq=False)
class Block:
    """One attention block of a batch: arrays ``[sentence, head, ...]``, and where its heads are."""

    site: Site
    first: int
    query: str
    key: str
    weights: np.ndarray
    allowed: np.ndarray  # bool [sentence, query, key]
    v: np.ndarray | None

    @property
    def heads(self) -> slice:
        return slice(self.first, self.first + self.weights.shape[1])


@dataclass(eq=False)
class Shelf:
    """Maps of sentences that may become examples: small, and given back at the end of a shard."""

    maps: dict[int, list[tuple[int, str, str, np.ndarray]]] = field(default_factory=dict)

    def keep(self, group: Sequence[Sentence], blocks: Sequence[Block]) -> None:
        """The maps of those sentences that are neither very short nor long."""
        for place, one in enumerate(group):
            if SHORTEST <= len(one.query) <= LONGEST:
                self.maps[one.number] = [
                    (b.first, b.query, b.key, shaded(b.weights[place])) for b in blocks
                ]

    def of(self, number: int, head: int) -> tuple[str, str, np.ndarray]:
        """Whose words the map of a head joins, and the map."""
        first, query, key, maps = max(
            (one for one in self.maps[number] if one[0] <= head), key=lambda one: one[0]
        )
        return query, key, maps[head - first]


def shaded(weights: np.ndarray) -> np.ndarray:
    """Weights as whole numbers, 255 for 1."""
    return np.rint(np.clip(np.nan_to_num(weights), 0, 1) * SHADES).astype(np.uint8)


def scan(
    model: Model,
    items: Sequence[tuple[int, Any]],
    *,
    view: str,
    seed: int,
    copying_every: int = 1,
    with_weights: bool = False,
    tell: Callable[[int], None] | None = None,
) -> Scanned:
    """All head measures of the numbered sentences ``items`` of one shard.

    Args:
        view: ``content`` or ``raw``, as `tv.metrics` takes it.
        seed: of the orders of the null, and of which sentences are typical.
        copying_every: `copying` needs the logits of each head; it is asked of every so many-th
            sentence, chosen by hash.
        with_weights: also count `ov_copying`, which needs no sentence; in one shard of a corpus.
        tell: hears how many sentences are done.
    """
    before = torch.get_num_threads()
    if model.device == "cpu":
        torch.set_num_threads(1)  # the order of sums must not depend on the machine's cores
    try:
        return _Scan(model, view, seed, copying_every, with_weights, tell).run(items)
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
        tell: Callable[[int], None] | None,
    ):
        self.model, self.view, self.seed, self.every = model, view, seed, copying_every
        self.tell, self.own, self.with_weights = tell, OwnWeights(model), with_weights
        self.forward = self.statistics = 0.0
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
        totals: Totals | None = None
        heads: list[tuple[str, str, int, int]] = []
        shelf, known, done = Shelf(), [], 0
        counted = sum(int(self.model.size("heads")) * 2 for _ in range(6))
        for group in batches(sentences, counted):
            begin = time.perf_counter()
            blocks = list(self._blocks(group))
            middle = time.perf_counter()
            sums = self._measured(group, blocks, done == 0)
            if totals is None:
                heads = [
                    (b.site.stack, b.site.block, b.site.layer, head)
                    for b in blocks
                    for head in range(b.weights.shape[1])
                ]
                totals = Totals.empty(len(heads))
            totals = totals.plus(totals_of(sums))
            shelf.keep(group, blocks)
            for one, row in zip(group, scores(sums, GRID), strict=True):
                if one.number in shelf.maps:
                    known.append((one, row))
            self.forward += middle - begin
            self.statistics += time.perf_counter() - middle
            done += len(group)
            if self.tell is not None:
                self.tell(done)
        begin = time.perf_counter()
        examples = self._examples(known, shelf)
        self.statistics += time.perf_counter() - begin
        whole = Totals.empty(0) if totals is None else totals
        return Scanned(tuple(heads), whole, examples, done, refused, self.forward, self.statistics)

    def _blocks(self, group: Sequence[Sentence]) -> Iterator[Block]:
        """Every attention block of a batch, in the order of a trace."""
        with torch.inference_mode(), probe(self.model.module, None, self.request) as capture:
            together(group).through(self.model)
        first = 0
        for record in _first(capture):
            assert record.weights is not None
            weights = to_numpy(record.weights)
            on_source = record.stack == "encoder" or self.model.kind == "decoder-only"
            yield Block(
                record.site,
                first,
                "source" if on_source else "target",
                "source" if on_source or record.kind == "cross" else "target",
                weights,
                _allowed(record, weights),
                None if record.v is None else to_numpy(record.v),
            )
            first += weights.shape[1]

    def _measured(self, group: Sequence[Sentence], blocks: Sequence[Block], first: bool) -> Sums:
        sums = Sums.empty(len(group), sum(b.weights.shape[1] for b in blocks))
        for alike in _alike(blocks):
            self._side_by_side(sums, group, alike)
        if self.own.module is not None:
            for place, one in enumerate(group):
                if draw_of(self.seed, one.number) % self.every == 0:
                    self._copying(sums, group, blocks, place)
            if first and self.with_weights:
                self._circuits(sums, blocks)
        return sums

    def _side_by_side(self, sums: Sums, group: Sequence[Sentence], blocks: Sequence[Block]) -> None:
        """Blocks of one kind and size; one by one and sentence by sentence where masks differ."""
        query, key = (
            [_side(one, getattr(blocks[0], side)) for one in group] for side in ("query", "key")
        )
        same = all((b.allowed == blocks[0].allowed[:1]).all() for b in blocks)
        same &= len({(q.special, k.special) for q, k in zip(query, key, strict=True)}) == 1
        some = [slice(0, len(group))] if same else [slice(n, n + 1) for n in range(len(group))]
        parts = [blocks] if same else [[b] for b in blocks]
        for part in parts:
            for at in some:
                words = key[at]
                stack = Stacked(
                    np.concatenate([b.weights[at] for b in part], 1),
                    part[0].allowed[at][0],
                    np.array(query[at][0].special, bool),
                    np.array(words[0].special, bool),
                    np.array([w.ids for w in words], np.int64) if words[0].ids else None,
                    part[0].site.block == "cross",
                    self.view,
                    self._values(part, at),
                )
                orders = [self._generator(one.number, part[0].site) for one in group[at]]
                _put_in(sums, at, part, measure(stack, orders))

    def _generator(self, number: int, site: Site) -> np.random.Generator:
        kind = sum(f"{site.stack} {site.block}".encode())
        return np.random.default_rng((self.seed, number, kind))

    def _values(
        self, blocks: Sequence[Block], at: slice
    ) -> Callable[[np.ndarray], np.ndarray] | None:
        if any(b.v is None for b in blocks) or self.own.module is None:
            return None
        values = np.concatenate([b.v[at] for b in blocks if b.v is not None], 1)
        short = self.own.shortening([b.site for b in blocks], values.shape[1])
        heads, flat = values.shape[1], values.reshape(-1, *values.shape[2:])
        return lambda some: short(flat[some], some % heads)

    def _copying(
        self, sums: Sums, group: Sequence[Sentence], blocks: Sequence[Block], place: int
    ) -> None:
        for block in blocks:
            if block.v is None or not self.own.says(block.site):
                continue
            rows = self._rows(group[place], block, place)
            token, asked = asked_to_copy(rows)
            head, query = np.nonzero(asked)
            written = self.own.written(block.site, rows.weights, block.v[place])
            logits = self.own.direct(written[head, query])
            raised = (logits > np.take_along_axis(logits, token[head, query][:, None], -1)).sum(-1)
            hits = np.zeros(asked.shape)
            hits[head, query] = raised < TOP
            share = min(1.0, TOP / logits.shape[-1])
            chance = tally(np.full(asked.shape, share), asked)
            put_apart(sums, place, block.heads, "copying", tally(hits, asked), chance)

    def _circuits(self, sums: Sums, blocks: Sequence[Block]) -> None:
        for block in blocks:
            ov = self.own.ov.get((block.site.block, block.site.layer))
            if ov is not None and block.site.stack == self.own.last:
                known = np.isfinite(ov)[:, None]
                own = tally(np.nan_to_num(ov)[:, None], known)
                put_apart(sums, 0, block.heads, "ov_copying", own, tally(0.0 * known, known))

    def _rows(self, one: Sentence, block: Block, place: int) -> HeadRows:
        query, key = _side(one, block.query), _side(one, block.key)
        return HeadRows(
            block.weights[place],
            block.allowed[place],
            np.array(query.special, bool),
            np.array(key.special, bool),
            key_ids=np.array(key.ids, np.int64),
            cross=block.site.block == "cross",
            view=self.view,
        )

    def _examples(self, known: list[tuple[Sentence, np.ndarray]], shelf: Shelf) -> list[Example]:
        if not known:
            return []
        numbers = np.array([one.number for one, _ in known], np.int64)
        draws = np.array([draw_of(self.seed, n) for n in numbers.tolist()], np.int64)
        chosen = choose(np.stack([row for _, row in known]), numbers, draws, SHOWN)
        by_number = {one.number: one for one, _ in known}
        found = []
        for head, choices in enumerate(chosen):
            of = sorted(choices, key=lambda c: (c.sentence, c))
            for number, group in groupby(of, key=lambda c: c.sentence):
                query, key, weights = shelf.of(number, head)
                one = by_number[number]
                found.append(
                    Example(
                        head,
                        number,
                        one.text,
                        one.target or "",
                        _side(one, query).pieces,
                        _side(one, key).pieces,
                        weights,
                        tuple(group),
                    )
                )
        return found


def _first(capture: Capture) -> list[AttentionRecord]:
    """The blocks whose weights were kept.

    Raises:
        ValueError: there is none.
    """
    found = [record for record in ordered(capture) if record.weights is not None]
    if not found:
        raise ValueError(
            "No attention of this model could be seen, so there is no head to measure; "
            "transformer-viz inspect says what was found."
        )
    return found


def _allowed(record: AttentionRecord, weights: np.ndarray) -> np.ndarray:
    """Where masks let queries look, bool ``[sentence, query, key]``; as `tables.allowed_keys`."""
    scores = record.scores
    if scores is not None and scores.shape == weights.shape:
        return (scores > MASK_SCORE).any(1).cpu().numpy()
    return np.any(weights > 0, axis=1)


def _alike(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks of one kind whose maps have one size, which may stand side by side."""

    def kind(block: Block) -> tuple[Any, ...]:
        sizes = block.weights.shape[2:]
        wide = None if block.v is None else block.v.shape[1:2] + block.v.shape[-1:]
        return (block.site.stack, block.site.block, sizes, wide)

    for _, group in groupby(blocks, key=kind):
        yield list(group)


def _put_in(sums: Sums, at: slice, blocks: Sequence[Block], found: Sums) -> None:
    """The sums of blocks side by side, into the places of their heads."""
    start = 0
    for block in blocks:
        heads = block.weights.shape[1]
        for name, part in vars(found).items():
            getattr(sums, name)[at, block.heads] += part[:, start : start + heads]
        start += heads


def _side(sentence: Sentence, side: str) -> Tokens:
    read = sentence.read
    return read.source if side == "source" or read.target is None else read.target
