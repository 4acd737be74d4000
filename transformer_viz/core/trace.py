"""What happened in one run of a model, as plain read-only data."""

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
    """What happened when one input went through one model once. Look-ups only.

    Batch is always one above the model. Arrays are numpy and read-only. ``logits`` (before the last
    softmax) are ``[token, vocabulary]``, ``[class]``, or ``[2, token]`` for start and end of an
    answer; a model that ends in states has none, but ``output`` ``[token, d_model]``.
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
        """What it is in one line; its numbers are in its fields."""
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
        """Whether a file is one that :meth:`save` wrote, by its head alone."""
        try:
            with utf8_name(path) as name, safetensors.safe_open(name, framework="numpy") as file:
                return "trace" in (file.metadata() or {})
        except (OSError, safetensors.SafetensorError):
            return False

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that :meth:`save` wrote; the inverse of it.

        Raises:
            FileNotFoundError: no such file.
            ValueError: not a trace file; says what is wrong with it.
        """
        return cls(**load_fields(path))

    @property
    def guesses(self) -> dict[str, Any]:
        """The words of the model's config that no file states, with the values that were taken."""
        return guesses_in(self.manifest)

    @property
    def maps(self) -> tuple[str, ...]:
        """The maps this run has, of ``encoder``, ``decoder``, ``cross``, in this order."""
        return tuple(name for name in MAPS if name in self.thumbnails)

    def head_column(self, block: str, name: str) -> np.ndarray:
        """A column of ``heads`` for one map, float64 ``[layer, head]``; NaN where it is not known.

        Raises:
            LookupError: a map that this run does not have; names those it has.
        """
        rows, layers, heads = self._head_rows.get(block, ((), (), ()))
        if not len(rows):
            self.thumbnail(block)  # names the maps there are
            raise LookupError(f"The table of heads of this trace has none of {block!r}.")
        found = np.full((int(layers.max()) + 1, int(heads.max()) + 1), np.nan)
        if name in self.heads.columns:
            found[layers, heads] = self.heads[name].to_numpy()[rows]
        return found

    def head_counts(self, block: str) -> np.ndarray:
        """How many heads each layer of a map has, ``[layer]``.

        Raises:
            LookupError: a map that this run does not have; names those it has.
        """
        self.thumbnail(block)
        return np.bincount(self._head_rows[block][1])

    @cached_property
    def _head_rows(self) -> dict[str, tuple[Any, Any, Any]]:
        """By map: its rows of ``heads``, and the layer and the head of each."""
        stacks, blocks, layers, heads = (
            self.heads[name].to_numpy() for name in ("stack", "block", "layer", "head")
        )
        found: dict[str, tuple[Any, Any, Any]] = {}
        for block, (stack, kind) in MAPS.items():
            rows = np.flatnonzero((stacks == stack) & (blocks == kind))
            found[block] = rows, layers[rows].astype(int), heads[rows].astype(int)
        return found

    def layers(self, block: str) -> int:
        """How many layers a map has."""
        return len(self.thumbnail(block))

    def blocks(self, block: str) -> tuple[Attention, ...]:
        """The kept attentions of a map, by layer.

        Raises:
            LookupError: a map the model lacks, or one whose matrices were not kept; names what is.
        """
        self.thumbnail(block)
        layers = sorted({one.site.layer for one in self._kept(block)})
        if not layers:
            absent = f"{self._absent('weights')}{self._untiled(block)}"
            raise LookupError(f"The matrices of {block!r} {absent}")
        self._refuse_large(block, self._tiled(block))
        return tuple(self.block(block, layer) for layer in layers)

    def block(self, block: str, layer: int) -> Attention:
        """The kept attention of one layer of a map; of tiles it is built on demand.

        Raises:
            LookupError: a layer of which nothing was kept, or tiles of a map that is larger than
                what is built on demand; names what there is.
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
        """What there is of a map: its weights, or else its tiles, a layer each."""
        kept: list[Attention | Tiles] = [a for a in self.attentions if a.site.map == block]
        return [*kept, *self._tiled(block)]

    def _tiled(self, block: str) -> list[Tiles]:
        """The layers of a map of which there are tiles and no weights."""
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
        """Some rows and columns of one head's map, float32 ``[row, column]``: the very weights that
        the whole matrix has there, under all edits, of texts of any length.

        Raises:
            LookupError: a map or a layer that the model lacks, or of which neither tiles nor
                weights were kept; says why.
            ValueError: a head, rows or columns that the map does not have; says what it has.
        """
        return self._tiles(block, layer).tile(head, rows, columns)

    def level(self, block: str, layer: int, head: int, cells: int = 512) -> np.ndarray:
        """The whole map of one head in at most ``cells`` x ``cells``, max-pooled, float32.

        Raises:
            LookupError, ValueError: as of :meth:`tile`.
        """
        return self._tiles(block, layer).level(head, cells)

    def map_shape(self, block: str, layer: int) -> tuple[int, int]:
        """How many rows and columns the maps of a layer have.

        Raises:
            LookupError: as of :meth:`tile`.
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
        """Some rows and columns of one head's map in cells of ``step`` x ``step``: the largest
        weight of each, float32, and whether the head may look at nothing in it, bool.

        Raises:
            LookupError, ValueError: as of :meth:`tile`.
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
        """The strongest links of a head between words that are far apart, of texts of any length.

        The map is looked at in blocks of rows, so that memory grows with the text and not with its
        square. Cells that the head may not look at are left out.

        Args:
            block: ``encoder`` or ``decoder``.
            layer: counted from 0.
            head: counted from 0.
            distance: the least number of tokens between a row and a column.
            count: how many links at most.
            first: whether links to the first token, the usual attention sink, count too.
            once: whether only the strongest link to each key counts: a few keys may have them all.
            on_progress: called with the rows done and all rows; what it raises ends the search.

        Returns:
            A link a row, the largest weight first: ``query`` and ``key`` as on the sides of a map,
            their places ``row`` and ``column`` (tokens, from 0), ``distance`` and ``weight``.

        Raises:
            LookupError: as of :meth:`tile`.
            ValueError: a head that is not there, a map between two texts, or a distance or a
                number below 1; says which.
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
        """Why a part is not here, and what to do about it."""
        if self.report.given:
            return (
                "were not given: this trace was made of arrays of weights. Open the model with "
                f'tv.load and run tv.trace with keep=("{part}",).'
            )
        return f'were not kept in this trace; trace again with keep=("{part}",).'

    def _untiled(self, block: str, layer: int | None = None) -> str:
        """Why a map has no tiles, where they were asked for."""
        said = self.manifest.get("untiled", {})
        for place, why in said.items():
            if place == f"{block}.{layer}" or (layer is None and place.startswith(f"{block}.")):
                return f" Tiles cannot be had of {place}: {why}."
        return ""

    @property
    def task(self) -> str:
        """The task of a classifier, see :mod:`.numerics`; empty for all others."""
        return str(self.manifest.get("task", ""))

    @property
    def marks_answer(self) -> bool:
        """Whether the logits say where an answer starts and ends, ``[2, token]``."""
        return self.manifest.get("gives") == "spans"

    @property
    def patches(self) -> np.ndarray | None:
        """The numbers of the tokens that are patches of a picture, ``[row, column]``, or None."""
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
                f"The hidden states of {stack!r} {self._absent('hidden')} "
                f"Kept: {', '.join(self.hiddens) or 'none'}."
            )
        return self.hiddens[stack]

    def tokens(self, sentence: str) -> Tokens:
        """The tokens of ``source`` or ``target``."""
        if sentence == "source" or self.target is None:
            return self.source
        return self.target

    def words_of(self, stack: str) -> Tokens:
        """The tokens of a stack: the source of ``encoder``, of ``decoder`` the target if any."""
        return self.tokens("source" if stack == "encoder" else "target")
