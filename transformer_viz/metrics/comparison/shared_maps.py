"""Attention map of two runs, reduced to the words that both read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...core.numerics import entropy_bits
from ...core.trace import Trace
from ...core.trace_parts import Attention, Tokens
from ..head_measures.rows import HeadRows
from ..head_measures.tables import rows_of
from .common_words import CommonWords, common_words
from .divergence import jensen_shannon

ROUNDING = 1e-5  # tolerance of a row sum


@dataclass(frozen=True, eq=False)
class SharedBlock:
    """Heads of one block on shared words.

    Attributes:
        layer: Layer.
        weights: Float64 ``[head, row word, column word + 1]``: columns of a word's pieces summed,
            rows averaged. The last column is *elsewhere*: weight on words that the other side
            lacks, or on none. Each row sums to 1.
        sound: Bool ``[head, row]``, True for rows whose weights are shares.
        choice: Bool ``[row]``, True for rows that may look at two columns.
    """

    layer: int
    weights: np.ndarray
    sound: np.ndarray
    choice: np.ndarray

    @property
    def heads(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, eq=False)
class SharedMap:
    """Map (``encoder``, ``decoder``, ``cross``) of two runs on their shared words.

    ``query`` and ``key`` name the sentences of rows and columns; ``rows`` and ``columns`` hold
    their words; ``a`` and ``b`` are the blocks of each side by layer.
    """

    name: str
    query: str
    key: str
    rows: CommonWords
    columns: CommonWords
    a: tuple[SharedBlock, ...]
    b: tuple[SharedBlock, ...]

    @cached_property
    def words(self) -> np.ndarray:
        """True for rows that are words, ``[row]``; rows of special tokens are not compared."""
        return np.array([not word.special for word in self.rows.shared], bool)

    def asked(self, one: SharedBlock, other: SharedBlock) -> np.ndarray:
        """Return True for compared rows of each pair of heads, bool ``[head, other head, row]``."""
        rows = self.words & (one.choice | other.choice)
        return one.sound[:, None] & other.sound[None] & rows

    def of_same_place(self, one: SharedBlock, other: SharedBlock) -> tuple[np.ndarray, np.ndarray]:
        """Return divergence in bits and a mask of compared rows, ``[head, row]``, head by head."""
        count = min(one.heads, other.heads)
        apart = jensen_shannon(one.weights[:count], other.weights[:count])
        rows = self.words & (one.choice | other.choice)
        return apart, one.sound[:count] & other.sound[:count] & rows

    def of_all_pairs(self, one: SharedBlock, other: SharedBlock) -> tuple[np.ndarray, np.ndarray]:
        """Return sums of divergences over compared rows, and row counts, ``[head, other head]``."""
        asked = self.asked(one, other)
        sums = np.zeros((one.heads, other.heads))
        entropy = entropy_bits(other.weights)
        for head, weights in enumerate(one.weights):
            mixed = entropy_bits((weights + other.weights) / 2)
            apart = np.clip(mixed - (entropy_bits(weights) + entropy) / 2, 0.0, 1.0)
            sums[head] = np.where(asked[head], apart, 0.0).sum(-1)
        return sums, asked.sum(-1).astype(np.float64)


def shared_maps(a: Trace, b: Trace, view: str) -> tuple[SharedMap, ...]:
    """Return the maps of both runs, on their shared words.

    A block is left out if its rows or columns are not tokens of its sentence.

    Raises:
        LookupError: A trace has no weights.
    """
    known: dict[tuple[str, ...], CommonWords] = {}

    def common(sentence: str) -> CommonWords:
        sides = a.tokens(sentence), b.tokens(sentence)
        names = (*sides[0].pieces, "\0", *sides[1].pieces)
        if names not in known:
            known[names] = common_words(*sides)
        return known[names]

    found = []
    for name in a.maps:
        if name not in b.maps:
            continue
        first = a.blocks(name)[0]
        rows, columns = common(first.query), common(first.key)
        blocks = [
            tuple(
                _shared(
                    run,
                    block,
                    rows.members(side, len(query)),
                    columns.members(side, len(key)),
                    view,
                )
                for block in run.blocks(name)
                if _of_tokens(block, query, key)
            )
            for side, run in (("a", a), ("b", b))
            for query, key in [(run.tokens(first.query), run.tokens(first.key))]
        ]
        if all(blocks):
            sentences = (first.query, first.key)
            found.append(SharedMap(name, *sentences, rows, columns, blocks[0], blocks[1]))
    return tuple(found)


def _of_tokens(block: Attention, query: Tokens, key: Tokens) -> bool:
    return block.weights.shape[1:] == (len(query), len(key))


def _shared(
    trace: Trace, block: Attention, rows: np.ndarray, columns: np.ndarray, view: str
) -> SharedBlock:
    """Return a block on shared words; ``rows`` and ``columns`` are 0 and 1 ``[word, token]``."""
    read = rows_of(trace, block, view)
    sound = read.heeded & np.isfinite(block.weights).all(-1) & (block.weights >= 0).all(-1)
    means = rows / rows.sum(axis=1, keepdims=True)
    weights = means @ np.where(sound[..., None], read.viewed, 0.0) @ columns.T
    weights = np.concatenate([weights, np.zeros((*weights.shape[:2], 1))], axis=-1)
    missing = 1 - weights.sum(-1)
    weights[..., -1] = np.where(missing > ROUNDING, missing, 0.0)
    return SharedBlock(
        block.site.layer,
        weights / weights.sum(-1, keepdims=True),
        (sound.astype(np.float64) @ rows.T) == rows.sum(axis=1),
        _choice(read, rows, columns),
    )


def _choice(read: HeadRows, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return True for word rows that may look at two columns, elsewhere included, ``[row]``."""
    open_keys = read.keys & read.spoken[:, None]
    lone = columns.sum(0) == 0
    seen = np.column_stack([(open_keys @ columns.T) > 0, open_keys[:, lone].any(-1)])
    return ((rows @ seen) > 0).sum(-1) >= 2
