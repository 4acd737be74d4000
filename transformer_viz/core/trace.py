"""What happened in one run of a model, as plain read-only data."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .interventions import Intervention
from .sites import MAPS
from .trace_file import load_fields, save_trace
from .trace_parts import Attention, Produced, Report, Tokens, read_only


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened when one input went through one model once. Look-ups only.

    Batch is always one above the model. Arrays are numpy and read-only. ``logits`` are ``[token,
    vocabulary]``, or ``[class]``, before the last softmax; a model that ends in states has none of
    them and gives ``output`` ``[token, d_model]`` instead.
    """

    source: Tokens
    target: Tokens | None
    produced: Produced | None
    heads: pd.DataFrame
    thumbnails: dict[str, np.ndarray]
    attentions: tuple[Attention, ...]
    norms: pd.DataFrame
    gains: dict[str, tuple[np.ndarray | None, np.ndarray | None]]
    residuals: pd.DataFrame
    positions: dict[str, np.ndarray]
    logits: np.ndarray | None
    report: Report
    manifest: dict[str, Any]
    intervention: Intervention = field(default_factory=Intervention)
    hiddens: dict[str, np.ndarray] = field(default_factory=dict)
    output: np.ndarray | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this trace to one safetensors file (see :mod:`transformer_viz.core.trace_file`)."""
        save_trace(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that :meth:`save` wrote; the inverse of it.

        Raises:
            FileNotFoundError: no such file.
            ValueError: not a trace file; says what is wrong with it.
        """
        return cls(**load_fields(path))

    @property
    def maps(self) -> tuple[str, ...]:
        """The maps this run has, of ``encoder``, ``decoder``, ``cross``, in this order."""
        return tuple(name for name in MAPS if name in self.thumbnails)

    def layers(self, block: str) -> int:
        """How many layers a map has."""
        return len(self.thumbnail(block))

    def blocks(self, block: str) -> tuple[Attention, ...]:
        """The kept attentions of a map, by layer.

        Raises:
            LookupError: a map the model lacks, or one whose matrices were not kept; names what is.
        """
        self.thumbnail(block)
        found = tuple(a for a in self.attentions if a.site.map == block)
        if not found:
            raise LookupError(
                f"The matrices of {block!r} were not kept in this trace; trace again with "
                'keep=("weights",).'
            )
        return tuple(sorted(found, key=lambda a: a.site.layer))

    def block(self, block: str, layer: int) -> Attention:
        """The kept attention of one layer of a map."""
        kept = {a.site.layer: a for a in self.blocks(block)}
        if layer not in kept:
            raise LookupError(
                f"{block!r} has no layer {layer} in this trace; it has {sorted(kept)}."
            )
        return kept[layer]

    @property
    def patches(self) -> np.ndarray | None:
        """The numbers of the source's tokens that are patches of a picture, ``[row, column]``.

        None where the input had no picture.
        """
        cut = self.manifest.get("image")
        if not cut:
            return None
        rows, columns = cut["grid"]
        first = int(cut["prefix"])
        return np.arange(first, first + rows * columns).reshape(rows, columns)

    def attention(self, block: str, layer: int | None = None) -> np.ndarray:
        """A map's weights: ``[layer, head, query, key]``, or ``[head, query, key]`` of one layer.

        Raises:
            LookupError: a block that the model lacks or that was not kept; names those there are.
            ValueError: layers differ in shape and cannot be stacked.
        """
        return self._stacked("weights", block, layer)

    def gradients(self, block: str, layer: int | None = None) -> np.ndarray:
        """d(chosen logit) / d(weights), shaped like :meth:`attention`, when kept."""
        return self._stacked("gradients", block, layer)

    def _stacked(self, part: str, block: str, layer: int | None) -> np.ndarray:
        layers = self.blocks(block) if layer is None else (self.block(block, layer),)
        arrays = [getattr(attention, part) for attention in layers]
        if any(array is None for array in arrays):
            raise LookupError(
                f'{part} of {block!r} were not kept; trace again with keep=("{part}",).'
            )
        if layer is not None:
            return arrays[0]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            raise ValueError(
                f"The layers of {block!r} differ in shape {sorted(shapes)}; ask for one with "
                "layer=."
            )
        return read_only(np.stack(arrays))

    def thumbnail(self, block: str) -> np.ndarray:
        """Every head of a map, small: uint8 ``[layer, head, <=64, <=64]``, max-pooled, 255 = 1."""
        if block not in self.thumbnails:
            raise LookupError(
                f"This model has no {block!r} attention; it has "
                f"{', '.join(self.thumbnails) or 'none'}."
            )
        return self.thumbnails[block]

    def hidden(self, stack: str) -> np.ndarray:
        """The residual stream, ``[layer + 1, token, d_model]``, when kept."""
        if stack not in self.hiddens:
            raise LookupError(
                f"The hidden states of {stack!r} were not kept; trace again with "
                f'keep=("hidden",). Kept: {", ".join(self.hiddens) or "none"}.'
            )
        return self.hiddens[stack]

    def tokens(self, sentence: str) -> Tokens:
        """The tokens of ``source`` or ``target``."""
        if sentence == "source" or self.target is None:
            return self.source
        return self.target

    def words_of(self, stack: str) -> Tokens:
        """The tokens whose vectors run through a stack.

        Of ``encoder`` the source; of ``decoder`` the target, or the source where there is none.
        """
        return self.tokens("source" if stack == "encoder" else "target")
