"""Stacks of blocks from several batches: blocks with one mask are measured together.

The measures of a head do not depend on other heads in the stack, so stacks may have any size.
`CELLS` is large enough for numpy and small enough for a processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.trace_parts import Tokens
from ...metrics.corpus.selection import null_draw
from ...metrics.head_measures.columns import Sums
from ...metrics.head_measures.stacked import Stacked, measure
from ..head_metrics.own_weights import OwnWeights
from .blocks import Batch, Block, alike, side
from .sentences import Sentence

CELLS = 2**18  # weights per stack


@dataclass(frozen=True, eq=False)
class Piece:
    """Blocks of some sentences under one mask.

    ``start`` is the index of the first sentence among all measured ones, ``at`` the slice within
    its batch.
    """

    blocks: list[Block]
    sentences: list[Sentence]
    at: slice
    start: int

    @property
    def heads(self) -> slice:
        return slice(self.blocks[0].first, self.blocks[-1].heads.stop)

    @property
    def cells(self) -> int:
        size = self.blocks[0].weights
        return len(self.sentences) * (self.heads.stop - self.heads.start) * size[0, 0].size

    def tokens(self, which: str) -> list[Tokens]:
        """Return each sentence's tokens on the ``query`` or ``key`` side."""
        name = getattr(self.blocks[0], which)
        return [side(one, name) for one in self.sentences]

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """Key shared by pieces that can be stacked."""
        query, key = (self.tokens(which)[0] for which in ("query", "key"))
        first = self.blocks[0]
        return (
            (self.heads.start, self.heads.stop, first.weights.shape[2:]),
            first.allowed[self.at][0].tobytes(),
            (query.special, key.special, bool(key.ids)),
            any(block.v is None for block in self.blocks),
        )


def stacks(batches: Sequence[Batch]) -> Iterator[list[Piece]]:
    """Yield all blocks of some batches, in groups of pieces that are measured together."""
    kinds: dict[tuple[object, ...], list[Piece]] = {}
    start = 0
    for batch in batches:
        for blocks in alike(batch.blocks):
            for piece in _pieces(batch, blocks, start):
                kinds.setdefault(piece.kind, []).append(piece)
        start += len(batch.sentences)
    for pieces in kinds.values():
        some: list[Piece] = []
        for piece in pieces:
            if some and sum(one.cells for one in [*some, piece]) > CELLS:
                yield some
                some = []
            some.append(piece)
        yield some


def _pieces(batch: Batch, blocks: list[Block], start: int) -> Iterator[Piece]:
    """Yield blocks of one kind and size; separately per block and sentence if masks differ."""
    whole = Piece(blocks, batch.sentences, slice(0, len(batch.sentences)), start)
    specials = {
        (query.special, key.special)
        for query, key in zip(whole.tokens("query"), whole.tokens("key"), strict=True)
    }
    mask = blocks[0].allowed[:1]
    if len(specials) == 1 and all((block.allowed == mask).all() for block in blocks):
        yield whole
        return
    for block in blocks:
        for number, one in enumerate(batch.sentences):
            yield Piece([block], [one], slice(number, number + 1), start + number)


def filled(pieces: Sequence[Piece], part: Callable[[Block], np.ndarray]) -> np.ndarray:
    """Return one array of the pieces' blocks, ``[sentence, head, ...]``."""
    first = part(pieces[0].blocks[0])
    heads = pieces[0].heads
    shape = (sum(len(p.sentences) for p in pieces), heads.stop - heads.start, *first.shape[2:])
    made = np.empty(shape, first.dtype)
    row = 0
    for piece in pieces:
        rows = slice(row, row + len(piece.sentences))
        for block in piece.blocks:
            place = slice(block.first - heads.start, block.heads.stop - heads.start)
            made[rows, place] = part(block)[piece.at]
        row = rows.stop
    return made


def put_measured(
    sums: Sums, pieces: Sequence[Piece], own: OwnWeights, view: str, seed: int
) -> np.ndarray:
    """Measure one stack into ``sums``; return its weights ``[sentence, head, query, key]``."""
    first = pieces[0]
    block = first.blocks[0]
    weights = filled(pieces, lambda one: one.weights)
    sentences = [one for piece in pieces for one in piece.sentences]
    keys = [words for piece in pieces for words in piece.tokens("key")]
    stack = Stacked(
        weights,
        block.allowed[first.at][0],
        np.array(first.tokens("query")[0].special, bool),
        np.array(keys[0].special, bool),
        np.array([words.ids for words in keys], np.int64) if keys[0].ids else None,
        block.site.block == "cross",
        view,
        _values(pieces, own),
    )
    draws = np.array([null_draw(seed, one.number, block.site) for one in sentences], np.uint64)
    found = measure(stack, draws)
    places = np.concatenate([p.start + np.arange(len(p.sentences)) for p in pieces])
    for name, part in vars(found).items():
        getattr(sums, name)[places, first.heads] = part
    return weights


def _values(pieces: Sequence[Piece], own: OwnWeights) -> Callable[[], np.ndarray] | None:
    if own.module is None or any(b.v is None for piece in pieces for b in piece.blocks):
        return None
    sites = [block.site for block in pieces[0].blocks]

    def values() -> np.ndarray:
        found = own.short_values(sites, filled(pieces, _v))
        return found.reshape(-1, *found.shape[2:])

    return values


def _v(block: Block) -> np.ndarray:
    assert block.v is not None
    return block.v
