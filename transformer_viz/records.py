"""What happened in one run, as plain read-only data: Tokens, Attention, Trace."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .interventions import Intervention
from .sites import MAPS, Site


@dataclass(frozen=True)
class Tokens:
    """A sentence as the model reads it: ids, pieces, labels, whole words, special tokens.

    All tuples have one entry a token. ``labels`` are unique (a repeated piece gets a number);
    ``words`` gives tokens of the same word the same number, special tokens a number of their own;
    ``ids`` is empty where the source is vectors.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    words: tuple[int, ...]
    special: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.pieces)

    def __post_init__(self) -> None:
        lengths = {len(self.pieces), len(self.labels), len(self.words), len(self.special)}
        if len(lengths) > 1 or (self.ids and len(self.ids) != len(self.pieces)):
            raise ValueError(f"Tokens need one entry a token in every list; got lengths {lengths}.")


@dataclass(frozen=True, eq=False)
class Produced:
    """For each target row the token that row predicts, chosen or forced.

    ``probability`` float32 ``[row]`` and ``rank`` int ``[row]`` (1: the most probable) of that
    token under the run's last softmax.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    labels: tuple[str, ...]
    probability: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True, eq=False)
class Attention:
    """One block's attention: weights ``[head, query, key]`` float32, and whose words they join.

    ``query`` and ``key`` name the sentence of rows and columns (``source`` or ``target``).
    Optional, where they were kept: ``scores`` ``[head, query, key]`` as the softmax got them,
    ``q`` ``[head, query, d_k]``, ``k`` ``[head, key, d_k]``, ``v`` ``[head, key, d_v]``,
    ``gradients`` ``[head, query, key]``; with q and k the number ``scale`` that their product was
    multiplied with, and ``cap`` if scores were bound by cap x tanh(score / cap); None if unknown.
    """

    weights: np.ndarray
    site: Site
    query: str
    key: str
    scores: np.ndarray | None = None
    q: np.ndarray | None = None
    k: np.ndarray | None = None
    v: np.ndarray | None = None
    gradients: np.ndarray | None = None
    scale: float | None = None
    cap: float | None = None


@dataclass(frozen=True)
class Report:
    """The capture report: what was seen, and the proof that it is what the model used.

    ``sites`` every attention site found; ``row_sum_error`` the worst ``|sum of a row - 1|`` of the
    clean run; ``output_difference`` the watched clean run's output against an unwatched pass;
    ``rebuilt`` by site (``cross L1``) the largest difference between weights x v, projected in
    float64, and what entered the residual sum (None: not checked); ``replaced`` fused calls that
    ran as their explicit formula; ``unrecognised`` what could not be understood.
    Differences are relative to the largest value of the tensor compared.
    """

    sites: tuple[str, ...]
    row_sum_error: float
    output_difference: float | None
    rebuilt: dict[str, float | None]
    replaced: tuple[str, ...] = ()
    unrecognised: tuple[str, ...] = ()

    TOLERANCE = 1e-4

    @property
    def status(self) -> str:
        """``green`` when everything checked agrees, otherwise ``amber``."""
        checked = [self.row_sum_error, *(e for e in self.rebuilt.values() if e is not None)]
        if self.output_difference is not None:
            checked.append(self.output_difference)
        wrong = any(not error <= self.TOLERANCE for error in checked)  # NaN is wrong too
        return "amber" if wrong or not self.sites else "green"


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
        """Write this trace to one safetensors file (see :mod:`transformer_viz.storage`)."""
        from .storage import save_trace  # storage imports this module

        save_trace(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that :meth:`save` wrote; the inverse of it.

        Raises:
            FileNotFoundError: no such file.
            ValueError: not a trace file; says what is wrong with it.
        """
        from .storage import load_trace

        return load_trace(path)

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


def read_only(array: np.ndarray) -> np.ndarray:
    """The same array, closed for writing."""
    array.setflags(write=False)
    return array
