"""Cache of a decoder: keys and values of the tokens read so far, so that none is read twice.

A cache belongs to the caller; the model that fills it stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class KeptKeys:
    """Keys and values ``[row, head, key, width]`` of one attention.

    With ``grows`` each call adds those of the next tokens (self-attention). Otherwise the first
    call adds all (cross-attention, whose memory does not change).
    """

    grows: bool
    keys: Tensor | None = None
    values: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of tokens with keys and values."""
        return 0 if self.values is None else self.values.shape[2]

    @property
    def complete(self) -> bool:
        """True if nothing will be added."""
        return not self.grows and self.values is not None

    def add(self, keys: Tensor | None, values: Tensor) -> tuple[Tensor | None, Tensor]:
        """Append keys and values, and return all of them; None stands for no keys."""
        if self.values is not None:
            values = torch.cat((self.values, values), dim=2)
        if self.keys is not None and keys is not None:
            keys = torch.cat((self.keys, keys), dim=2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Keep these rows; a row may be repeated."""
        self.keys = None if self.keys is None else self.keys[rows]
        self.values = None if self.values is None else self.values[rows]

    def last(self, rows: slice, length: int) -> KeptKeys:
        """Return keys and values of the last tokens of some rows; may be empty."""
        first = self.length - length  # with length 0, -length would select all
        keys = None if self.keys is None else self.keys[rows, :, first:]
        return KeptKeys(
            self.grows, keys, None if self.values is None else self.values[rows, :, first:]
        )

    @classmethod
    def joined(cls, parts: Sequence[KeptKeys]) -> KeptKeys:
        """Return keys and values of all rows, with zeros before the shorter ones."""
        keys = [part.keys for part in parts if part.keys is not None]
        values = [part.values for part in parts if part.values is not None]
        return cls(
            parts[0].grows,
            padded_before(keys, 2) if keys else None,
            padded_before(values, 2) if values else None,
        )


@dataclass(eq=False)
class LayerCache:
    """Cache of one decoder layer."""

    own: KeptKeys = field(default_factory=lambda: KeptKeys(grows=True))
    cross: KeptKeys = field(default_factory=lambda: KeptKeys(grows=False))


@dataclass(eq=False)
class DecoderCache:
    """Cache of a decoder: the tokens ``text`` ``[row, token]``, and a cache per layer.

    ``visible`` ``[row, token]`` is false at padding, if it was given with the tokens. ``before``
    ``[row]`` int64 is the number of columns before each row's text, after texts of different length
    were joined; None: no columns.
    """

    layers: list[LayerCache]
    text: Tensor | None = None
    visible: Tensor | None = None
    before: Tensor | None = None

    @classmethod
    def empty(cls, layers: int) -> DecoderCache:
        """Return an empty cache for ``layers`` layers."""
        return cls([LayerCache() for _ in range(layers)])

    def read(self, ids: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Append tokens ``[row, token]``, and return the whole text and its padding mask.

        Tokens without ``visible`` after text with it are no padding.
        """
        if self.text is not None:
            if visible is None and self.visible is not None:
                visible = torch.ones_like(ids, dtype=torch.bool)
            if visible is not None and self.visible is not None:
                visible = torch.cat((self.visible, visible), dim=1)
            ids = torch.cat((self.text, ids), dim=1)
        self.text, self.visible = ids, visible
        return ids, visible

    def select(self, rows: Tensor) -> None:
        """Keep these rows ``[row]`` int64; a row may be repeated."""
        self.text = None if self.text is None else self.text[rows]
        self.visible = None if self.visible is None else self.visible[rows]
        for layer in self.layers:
            layer.own.select(rows)
            layer.cross.select(rows)
        if self.before is not None:
            self.before = self.before[rows]
            self._trim(int(self.before.min()) if len(self.before) else 0)

    def _trim(self, columns: int) -> None:
        """Remove columns before every text."""
        if not columns or self.before is None or self.text is None:
            return
        self.before = self.before - columns
        self.text = self.text[:, columns:]
        self.visible = None if self.visible is None else self.visible[:, columns:]
        for layer in self.layers:
            layer.own = layer.own.last(slice(None), layer.own.length - columns)

    @classmethod
    def joined(cls, caches: Sequence[DecoderCache]) -> DecoderCache:
        """Return the rows of all caches, the shorter texts after masked columns.

        Either all or none of them have ``visible``.
        """
        texts = [cache.text for cache in caches if cache.text is not None]
        seen = [cache.visible for cache in caches if cache.visible is not None]
        longest = max(text.shape[1] for text in texts)
        before = [text.new_full((len(text),), longest - text.shape[1]) for text in texts]
        layers = [
            LayerCache(
                KeptKeys.joined([layer.own for layer in same]),
                KeptKeys.joined([layer.cross for layer in same]),
            )
            for same in zip(*(cache.layers for cache in caches), strict=True)
        ]
        return cls(
            layers,
            padded_before(texts, 1),
            padded_before(seen, 1) if seen else None,
            torch.cat(before),
        )

    def part(self, rows: slice, memory: int) -> DecoderCache:
        """Return some rows of equal length, as they were before joining.

        ``memory`` is their number of source tokens.
        """
        assert self.text is not None and self.before is not None
        first = int(self.before[rows.start])
        length = self.text.shape[1] - first
        layers = [
            LayerCache(layer.own.last(rows, length), layer.cross.last(rows, memory))
            for layer in self.layers
        ]
        seen = None if self.visible is None else self.visible[rows, first:]
        return DecoderCache(layers, self.text[rows, first:], seen)


def padded_before(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Return tensors of different length along an axis as one, padded with zeros before."""
    longest = max(part.shape[axis] for part in parts)
    rows = sum(len(part) for part in parts)
    shape = [rows, *parts[0].shape[1:]]
    shape[axis] = longest
    made, row = parts[0].new_zeros(shape), 0
    for part in parts:
        place = made[row : row + len(part)]
        place.narrow(axis, longest - part.shape[axis], part.shape[axis]).copy_(part)
        row += len(part)
    return made
