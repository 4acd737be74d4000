"""What a decoder has read so far: the keys and values of its tokens, so that none is read twice.

A cache belongs to whoever decodes; the model that fills it keeps nothing of it.
"""

from __future__ import annotations

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


@dataclass(eq=False)
class LayerCache:
    """What one layer of a decoder keeps."""

    own: KeptKeys = field(default_factory=lambda: KeptKeys(grows=True))
    cross: KeptKeys = field(default_factory=lambda: KeptKeys(grows=False))


@dataclass(eq=False)
class DecoderCache:
    """What a decoder has read: the tokens ``text`` ``[row, token]``, and what each layer keeps.

    ``visible`` ``[row, token]`` is false at padding, where that was told beside the tokens.
    """

    layers: list[LayerCache]
    text: Tensor | None = None
    visible: Tensor | None = None

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
