"""The maps of some heads over one input, and which rows may be asked what: the one place.

A *row* is a query. Only rows of ordinary tokens are asked: no special tokens, no padding. A row
needs two keys or more, or its answer is given. In a causal map the first key draws weight whatever
it is (Xiao et al. 2023), so no offset may point to it. The *raw* view has the weights as they are;
the *content* view drops special keys and divides by what is left, and leaves out rows that keep
less than ``CONTENT`` (sink rows). Chance is the same metric of a head that is uniform over the
keys a row may see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

VIEWS = ("content", "raw")
CONTENT = 0.05  # a row with less of its weight on ordinary tokens says nothing about them
TIE = 1e-6  # weights this close are alike


@dataclass(frozen=True, eq=False)
class Side:
    """The tokens of rows or columns: ``ids`` ``[token]`` or None, and flags ``[token]``.

    ``special``: start, end, separator, padding; ``marks``: periods and commas.
    """

    special: np.ndarray
    marks: np.ndarray
    ids: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Projections:
    """What a head does with what it reads, where the caller has it (M8, M11, M12).

    ``values`` ``[head, key, d_v]``; ``output`` ``[head, d_v, d_model]``, the head's rows of the
    output projection; ``final`` the same as the last norm lets it through (centred, times its
    gain); ``unembedding`` ``[vocabulary, d_model]``; ``circuit`` ``[head, d_v, d_v]``, the product
    (W_O W_U)(W_E W_V). None where unknown.
    """

    values: np.ndarray | None = None
    output: np.ndarray | None = None
    final: np.ndarray | None = None
    unembedding: np.ndarray | None = None
    circuit: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Maps:
    """The weights of heads that see the same keys, and what is known of rows and columns.

    ``weights`` ``[head, query, key]``, after softmax and mask; ``visible`` ``[query, key]``, false
    where the mask hides a key or the key is padding; ``cross`` if rows and columns are different
    sentences; ``view`` one of ``VIEWS``.
    """

    weights: np.ndarray
    visible: np.ndarray
    query: Side
    key: Side
    cross: bool = False
    view: str = "content"
    beyond: Projections = Projections()

    @cached_property
    def raw(self) -> np.ndarray:
        """The weights as they are, float64, 0 where a key is hidden."""
        return np.where(self.visible, self.weights, 0.0).astype(np.float64)

    @cached_property
    def keys(self) -> np.ndarray:
        """``[query, key]``: the keys of each row that this view has."""
        return self.visible & ~self.key.special if self.view == "content" else self.visible

    @cached_property
    def n(self) -> np.ndarray:
        """``[query]``: how many keys a row has in this view."""
        return self.keys.sum(1)

    @cached_property
    def ordinary(self) -> np.ndarray:
        """``[query]``: rows of ordinary tokens that see two keys or more, as the weights are."""
        return ~self.query.special & (self.visible.sum(1) >= 2)

    @cached_property
    def mass(self) -> np.ndarray:
        """``[head, query]``: the share of a row's weight on the keys of this view."""
        return (self.raw * self.keys).sum(-1)

    @cached_property
    def viewed(self) -> np.ndarray:
        """The weights in this view, ``[head, query, key]``; rows of content sum to 1."""
        if self.view == "raw":
            return self.raw
        left = self.mass[..., None]
        return np.divide(self.raw * self.keys, left, out=np.zeros_like(self.raw), where=left > 0)

    @cached_property
    def seen(self) -> np.ndarray:
        """``[head, query]``: rows, special ones too, with enough weight in this view."""
        return self.mass >= CONTENT if self.view == "content" else self.mass > 0

    @cached_property
    def rows(self) -> np.ndarray:
        """``[head, query]``: the rows that a metric in this view may ask."""
        return self.seen & ~self.query.special & (self.n >= 2)

    @cached_property
    def first(self) -> int:
        """The first key that any row sees."""
        return int(self.visible.any(0).argmax())

    @cached_property
    def causal(self) -> bool:
        """Whether this is self-attention in which no row sees a later key."""
        return not self.cross and not np.triu(self.visible, 1).any()

    @cached_property
    def ends(self) -> np.ndarray:
        """``[key]``: end-of-sentence marks, the special tokens that are not the first key."""
        return self.key.special & (np.arange(len(self.key.special)) != self.first)

    def at(self, offsets: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values at key i + o of each row i, ``[head, query, offset]``, and where that key is
        there, visible, ordinary and not the sink of a causal map."""
        rows, columns = self.visible.shape
        key = np.arange(rows)[:, None] + offsets
        there = (key >= 0) & (key < columns)
        key = key.clip(0, columns - 1)
        row = np.arange(rows)[:, None]
        there &= self.visible[row, key] & ~self.key.special[key]
        if self.causal:
            there &= key != self.first
        return values[:, row, key], there & self.rows[..., None]

    def uniform(self) -> Maps:
        """One head that looks alike at all keys a row may see: chance."""
        count = self.visible.sum(1, keepdims=True)
        return replace(self, weights=(self.visible / np.maximum(count, 1))[None])

    def shuffled_ids(self, order: np.ndarray) -> Maps:
        """The same weights over other words: ids of ordinary tokens in another order.

        ``order`` ``[token]`` sorts; special tokens stay where they are. Of self-attention only.
        """
        if self.cross or self.query.ids is None:
            return self
        ids = self.query.ids.copy()
        places = np.flatnonzero(~self.query.special)
        ids[places] = ids[places[np.argsort(order[places], kind="stable")]]
        return replace(self, query=replace(self.query, ids=ids), key=replace(self.key, ids=ids))

    def shuffled_rows(self, order: np.ndarray) -> Maps:
        """Ordinary rows have each other's weights; ``order`` ``[token]`` sorts."""
        places = np.flatnonzero(self.ordinary)
        weights = self.weights.copy()
        weights[:, places] = weights[:, places[np.argsort(order[places], kind="stable")]]
        return replace(self, weights=weights)
