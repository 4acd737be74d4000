"""What a decoder has read so far: the keys and values of its tokens, so that none is read twice.

A cache belongs to whoever decodes; the model that fills it keeps nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class KeptKeys:
    """Keys and values ``[row, head, key, width]`` of one attention.

    ``grows``: each call brings the next tokens' (self-attention). Else the first call brings all
    (cross-attention, whose memory does not change).
    """

    grows: bool
    keys: Tensor | None = None
    values: Tensor | None = None

    @property
    def length(self) -> int:
        """Of how many tokens there are keys and values."""
        return 0 if self.values is None else self.values.shape[2]

    @property
    def complete(self) -> bool:
        """Whether nothing is to be added any more."""
        return not self.grows and self.values is not None

    def add(self, keys: Tensor | None, values: Tensor) -> tuple[Tensor | None, Tensor]:
        """All keys and values, with these behind those that were there; no keys: None."""
        if self.values is not None:
            values = torch.cat((self.values, values), dim=2)
        if self.keys is not None and keys is not None:
            keys = torch.cat((self.keys, keys), dim=2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, a row as often as it is named."""
        self.keys = None if self.keys is None else self.keys[rows]
        self.values = None if self.values is None else self.values[rows]

    def last(self, rows: slice, length: int) -> KeptKeys:
        """The last tokens' of some rows; of no token, empty ones."""
        first = self.length - length  # -length would be the first of all where length is 0
        keys = None if self.keys is None else self.keys[rows, :, first:]
        return KeptKeys(
            self.grows, keys, None if self.values is None else self.values[rows, :, first:]
        )

    @classmethod
    def joined(cls, parts: Sequence[KeptKeys]) -> KeptKeys:
        """Those of all rows, with zeros before the shorter ones."""
        keys = [part.keys for part in parts if part.keys is not None]
        values = [part.values for part in parts if part.values is not None]
        return cls(
            parts[0].grows,
            padded_before(keys, 2) if keys else None,
            padded_before(values, 2) if values else None,
        )


@dataclass(eq=False)
class LayerCache:
    """What one layer of a decoder keeps."""

    own: KeptKeys = field(default_factory=lambda: KeptKeys(grows=True))
    cross: KeptKeys = field(default_factory=lambda: KeptKeys(grows=False))


@dataclass(eq=False)
class DecoderCache:
    """What a decoder has read: the tokens ``text`` ``[row, token]``, and what each layer keeps.

    ``visible`` ``[row, token]`` is false at padding, where that was told beside the tokens.
    ``before`` ``[row]`` int64 tells how many columns stand before each row's text, where texts of
    different length were joined; None: no columns.
    """

    layers: list[LayerCache]
    text: Tensor | None = None
    visible: Tensor | None = None
    before: Tensor | None = None

    @classmethod
    def empty(cls, layers: int) -> DecoderCache:
        """Nothing read yet, for so many layers."""
        return cls([LayerCache() for _ in range(layers)])

    def read(self, ids: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Take note of further tokens ``[row, token]``; gives the whole text and its padding.

        What comes without ``visible`` after text that had it is no padding.
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
        """Go on with these rows ``[row]`` int64, a row as often as it is named."""
        self.text = None if self.text is None else self.text[rows]
        self.visible = None if self.visible is None else self.visible[rows]
        for layer in self.layers:
            layer.own.select(rows)
            layer.cross.select(rows)
        if self.before is not None:
            self.before = self.before[rows]
            self._trim(int(self.before.min()) if len(self.before) else 0)

    def _trim(self, columns: int) -> None:
        """Cut columns that stand before every text."""
        if not columns or self.before is None or self.text is None:
            return
        self.before = self.before - columns
        self.text = self.text[:, columns:]
        self.visible = None if self.visible is None else self.visible[:, columns:]
        for layer in self.layers:
            layer.own = layer.own.last(slice(None), layer.own.length - columns)

    @classmethod
    def joined(cls, caches: Sequence[DecoderCache]) -> DecoderCache:
        """The rows of all of them, the shorter texts behind columns that nobody looks at.

        All or none of them were told which tokens are ``visible``.
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
        """Some rows of one length, as they were before they were joined.

        ``memory`` is how many source tokens they have.
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
    """Tensors of different length along an axis as one, row below row, with zeros before."""
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
