"""Trace: a record of one run of a model, as plain read-only data."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import safetensors

from .errors import visible
from .guesses import guess_mark, guesses_in
from .interventions import Intervention
from .sites import MAPS
from .stored.file_names import utf8_name
from .tiles import MOST_CELLS, Matrix, Tiles
from .trace_file import load_fields, save_trace
from .trace_parts import Attention, Produced, Report, Tokens, read_only


@dataclass(frozen=True, eq=False)
class Trace:
    """Record of one run of one input through one model; look-ups only.

    The batch is always one. Arrays are numpy and read-only. ``logits`` (before the last softmax)
    are ``[token, vocabulary]``, ``[class]``, or ``[2, token]`` for start and end of an answer. A
    model that ends in states has ``output`` ``[token, d_model]`` instead.
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
    tiles: tuple[Tiles, ...] = ()

    def __repr__(self) -> str:
        """Return a one-line summary."""
        words = [f"{len(self.source)} source tokens"]
        if self.target is not None:
            words.append(f"{len(self.target)} target tokens")
        words.append(f"{len(self.heads)} heads in {len(self.attentions)} attentions")
        if self.report.given:
            words.append(self.report.GIVEN)
        model = visible(str(self.manifest.get("model", "a model")))
        return (
            f"<Trace of {model}: {', '.join([*words, *filter(None, [guess_mark(self.guesses)])])}>"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this trace to one safetensors file (see :mod:`transformer_viz.core.trace_file`)."""
        save_trace(self, path)

    @staticmethod
    def is_file(path: str | os.PathLike[str]) -> bool:
        """Return True if :meth:`save` wrote the file, judged by its header alone."""
        try:
            with utf8_name(path) as name, safetensors.safe_open(name, framework="numpy") as file:
                return "trace" in (file.metadata() or {})
        except (OSError, safetensors.SafetensorError):
            return False

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that :meth:`save` wrote.

        Raises:
            FileNotFoundError: The file does not exist.
            ValueError: The file is no trace. The message gives the reason.
        """
        return cls(**load_fields(path))

    @property
    def guesses(self) -> dict[str, Any]:
        """Config values that no file states, by name."""
        return guesses_in(self.manifest)

    @property
    def maps(self) -> tuple[str, ...]:
        """Maps of this run: some of ``encoder``, ``decoder``, ``cross``, in this order."""
        return tuple(name for name in MAPS if name in self.thumbnails)

    def head_column(self, block: str, name: str) -> np.ndarray:
        """Return a column of ``heads`` for one map, float64 ``[layer, head]``; NaN if unknown.

        Raises:
            LookupError: This run lacks the map. The message names those it has.
        """
        rows, layers, heads = self._head_rows.get(block, ((), (), ()))
        if not len(rows):
            self.thumbnail(block)  # raises with the known maps
            raise LookupError(f"The table of heads of this trace has none of {block!r}.")
        found = np.full((int(layers.max()) + 1, int(heads.max()) + 1), np.nan)
        if name in self.heads.columns:
            found[layers, heads] = self.heads[name].to_numpy()[rows]
        return found

    def head_counts(self, block: str) -> np.ndarray:
        """Return the number of heads of each layer of a map, ``[layer]``.

        Raises:
            LookupError: This run lacks the map. The message names those it has.
        """
        self.thumbnail(block)
        return np.bincount(self._head_rows[block][1])

    @cached_property
    def _head_rows(self) -> dict[str, tuple[Any, Any, Any]]:
        """Rows of ``heads`` for each map, with the layer and the head of each row."""
        stacks, blocks, layers, heads = (
            self.heads[name].to_numpy() for name in ("stack", "block", "layer", "head")
        )
        found: dict[str, tuple[Any, Any, Any]] = {}
        for block, (stack, kind) in MAPS.items():
            rows = np.flatnonzero((stacks == stack) & (blocks == kind))
            found[block] = rows, layers[rows].astype(int), heads[rows].astype(int)
        return found

    def layers(self, block: str) -> int:
        """Return the number of layers of a map."""
        return len(self.thumbnail(block))

    def blocks(self, block: str) -> tuple[Attention, ...]:
        """Return the kept attentions of a map, by layer.

        Raises:
            LookupError: The model lacks the map, or its matrices were not kept.
        """
        self.thumbnail(block)
        layers = sorted({one.site.layer for one in self._kept(block)})
        if not layers:
            absent = f"{self._absent('weights')}{self._untiled(block)}"
            raise LookupError(f"The matrices of {block!r} {absent}")
        self._refuse_large(block, self._tiled(block))
        return tuple(self.block(block, layer) for layer in layers)

    def block(self, block: str, layer: int) -> Attention:
        """Return the kept attention of one layer of a map; a tiled one is built on demand.

        Raises:
            LookupError: Nothing was kept of the layer, or its tiles are too large to be built. The
                message names the alternatives.
        """
        self.thumbnail(block)
        kept = {one.site.layer: one for one in self._kept(block)}
        if not kept:
            self.blocks(block)
        if layer not in kept:
            there = f"it has {sorted(kept)}"
            raise LookupError(f"{block!r} has no layer {layer} in this trace; {there}.")
        found = kept[layer]
        if isinstance(found, Attention):
            return found
        self._refuse_large(block, [found])
        return Attention(found.whole(), found.site, found.query, found.key)

    def _kept(self, block: str) -> list[Attention | Tiles]:
        """Return the kept data of a map, per layer its weights or else its tiles."""
        kept: list[Attention | Tiles] = [a for a in self.attentions if a.site.map == block]
        return [*kept, *self._tiled(block)]

    def _tiled(self, block: str) -> list[Tiles]:
        """Return the layers of a map kept as tiles only."""
        whole = {a.site.layer for a in self.attentions if a.site.map == block}
        return [t for t in self.tiles if t.site.map == block and t.site.layer not in whole]

    @staticmethod
    def _refuse_large(block: str, tiles: Sequence[Tiles]) -> None:
        cells = sum(one.heads * math.prod(one.shape) for one in tiles)
        if cells > MOST_CELLS:
            raise LookupError(
                f"The matrices of {block!r} would take {4 * cells / 1e6:,.0f} MB, and at most "
                f"{4 * MOST_CELLS / 1e6:,.0f} MB are built on demand. Ask for a part with tile("
                f"{block!r}, layer, head, rows=, columns=), or for the whole in small with level."
            )

    def tile(
        self,
        block: str,
        layer: int,
        head: int,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> np.ndarray:
        """Return rows and columns of one head's map, float32 ``[row, column]``.

        The weights equal those of the whole matrix, under all edits, for texts of any length.

        Raises:
            LookupError: The model lacks the map or layer, or neither tiles nor weights were kept.
            ValueError: A head, rows or columns outside of the map. The message gives its size.
        """
        return self._tiles(block, layer).tile(head, rows, columns)

    def level(self, block: str, layer: int, head: int, cells: int = 512) -> np.ndarray:
        """Return the map of one head in at most ``cells`` x ``cells``, max-pooled, float32.

        Raises:
            LookupError, ValueError: As in :meth:`tile`.
        """
        return self._tiles(block, layer).level(head, cells)

    def map_shape(self, block: str, layer: int) -> tuple[int, int]:
        """Return the number of rows and columns of a layer's maps.

        Raises:
            LookupError: As in :meth:`tile`.
        """
        return self._tiles(block, layer).shape

    def pooled(
        self,
        block: str,
        layer: int,
        head: int,
        step: int,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns of one head's map in cells of ``step`` x ``step``.

        The result is the largest weight of each cell, float32, and True for cells without visible
        keys, bool.

        Raises:
            LookupError, ValueError: As in :meth:`tile`.
        """
        return self._tiles(block, layer).pooled(head, rows, columns, step, step)

    def far_links(
        self,
        block: str,
        layer: int,
        head: int,
        *,
        distance: int = 64,
        count: int = 12,
        first: bool = False,
        once: bool = False,
        on_progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> pd.DataFrame:
        """Return the strongest links of a head between distant tokens, for texts of any length.

        Blocks of rows are processed, so memory is linear in the text. Hidden cells are left out.

        Args:
            block: ``encoder`` or ``decoder``.
            layer: Layer, from 0.
            head: Head, from 0.
            distance: Smallest number of tokens between a row and a column.
            count: Maximum number of links.
            first: True to include links to the first token, the usual attention sink.
            once: True to keep only the strongest link to each key: a few keys may have them all.
            on_progress: Called with the rows done and all rows; an exception it raises cancels.

        Returns:
            One link per row, the largest weight first: ``query`` and ``key`` as labelled on the
                map, their tokens ``row`` and ``column`` (from 0), ``distance`` and ``weight``.

        Raises:
            LookupError: As in :meth:`tile`.
            ValueError: An unknown head, a map between two texts, or a distance or count below 1.
        """
        tiles = self._tiles(block, layer)
        begin = 0 if first else 1
        rows, columns, weights = tiles.far(head, distance, count, begin, once, on_progress)
        words = self.tokens(tiles.key).labels
        said = () if self.produced is None or block != "decoder" else self.produced.labels
        saying = said if len(said) == len(words) else words
        return pd.DataFrame(
            {
                "query": [saying[row] for row in rows],
                "key": [words[column] for column in columns],
                "row": rows,
                "column": columns,
                "distance": abs(rows - columns),
                "weight": weights,
            }
        )

    def _tiles(self, block: str, layer: int) -> Tiles:
        self.thumbnail(block)
        for one in self._kept(block):
            if one.site.layer == layer:
                if isinstance(one, Tiles):
                    return one
                return Tiles(one.site, one.query, one.key, (Matrix(one.weights),))
        raise LookupError(
            f"Neither tiles nor weights of {block!r} layer {layer} were kept in this trace; "
            f'trace again with keep=("tiles",).{self._untiled(block, layer)}'
        )

    def _absent(self, part: str) -> str:
        """Return the reason why a part is missing, and the remedy."""
        if self.report.given:
            return (
                "were not given: this trace was made of arrays of weights. Open the model with "
                f'tv.load and run tv.trace with keep=("{part}",).'
            )
        return f'were not kept in this trace; trace again with keep=("{part}",).'

    def _untiled(self, block: str, layer: int | None = None) -> str:
        """Return the reason why a requested map has no tiles."""
        said = self.manifest.get("untiled", {})
        for place, why in said.items():
            if place == f"{block}.{layer}" or (layer is None and place.startswith(f"{block}.")):
                return f" Tiles cannot be had of {place}: {why}."
        return ""

    @property
    def task(self) -> str:
        """Task of a classifier, see :mod:`.numerics`; empty for other models."""
        return str(self.manifest.get("task", ""))

    @property
    def marks_answer(self) -> bool:
        """True if the logits mark the start and end of an answer, ``[2, token]``."""
        return self.manifest.get("gives") == "spans"

    @property
    def patches(self) -> np.ndarray | None:
        """Token numbers of the patches of an image, ``[row, column]``, or None."""
        cut = self.manifest.get("image")
        if not cut:
            return None
        rows, columns = cut["grid"]
        first = int(cut["prefix"])
        return np.arange(first, first + rows * columns).reshape(rows, columns)

    def attention(self, block: str, layer: int | None = None) -> np.ndarray:
        """Return weights ``[layer, head, query, key]``, or ``[head, query, key]`` of one layer.

        Raises:
            LookupError: The model lacks the map, or it was not kept. The message names the others.
            ValueError: Layers differ in shape and cannot be stacked.
        """
        return self._stacked("weights", block, layer)

    def gradients(self, block: str, layer: int | None = None) -> np.ndarray:
        """Return d(chosen logit) / d(weights), shaped like :meth:`attention`, if kept."""
        return self._stacked("gradients", block, layer)

    def _stacked(self, part: str, block: str, layer: int | None) -> np.ndarray:
        layers = self.blocks(block) if layer is None else (self.block(block, layer),)
        arrays = [getattr(attention, part) for attention in layers]
        if any(array is None for array in arrays):
            raise LookupError(f"{part} of {block!r} {self._absent(part)}")
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
        """Return max-pooled thumbnails, uint8 ``[layer, head, <=64, <=64]``; 255 is weight 1."""
        if block not in self.thumbnails:
            raise LookupError(
                f"This model has no {block!r} attention; it has "
                f"{', '.join(self.thumbnails) or 'none'}."
            )
        return self.thumbnails[block]

    def hidden(self, stack: str) -> np.ndarray:
        """Return the residual stream, ``[layer + 1, token, d_model]``, if kept."""
        if stack not in self.hiddens:
            raise LookupError(
                f"The hidden states of {stack!r} {self._absent('hidden')} "
                f"Kept: {', '.join(self.hiddens) or 'none'}."
            )
        return self.hiddens[stack]

    def tokens(self, sentence: str) -> Tokens:
        """Return the tokens of ``source`` or ``target``."""
        if sentence == "source" or self.target is None:
            return self.source
        return self.target

    def words_of(self, stack: str) -> Tokens:
        """Return the source tokens for ``encoder``; for ``decoder`` the target tokens, if any."""
        return self.tokens("source" if stack == "encoder" else "target")
