"""Attention weights of a batch of sentences, block by block, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch

from ...capture import Capture, CaptureRequest, probe
from ...capture.records import AttentionRecord
from ...checkpoints.common.model import Model
from ...core.numerics import visible_cells
from ...core.sites import Site
from ...core.trace_parts import Tokens
from ..capture_to_numpy import ordered, to_numpy
from .sentences import Sentence, together


@dataclass(eq=False)
class Block:
    """Attention block of a batch: arrays ``[sentence, head, ...]``.

    ``first`` is the index of its first head among all heads.
    """

    site: Site
    first: int
    query: str
    key: str
    weights: np.ndarray
    allowed: np.ndarray  # bool [sentence, query, key]
    v: np.ndarray | None

    @property
    def count(self) -> int:
        """Number of heads."""
        return int(self.weights.shape[1])

    @property
    def heads(self) -> slice:
        return slice(self.first, self.first + self.count)


@dataclass(eq=False)
class Batch:
    """Sentences of one shape with all their blocks."""

    sentences: list[Sentence]
    blocks: list[Block]

    @property
    def cells(self) -> int:
        """Number of weights over all heads."""
        return sum(block.weights.size for block in self.blocks)


def watched(model: Model, sentences: list[Sentence], request: CaptureRequest) -> Batch:
    """Run the model over sentences of one shape and return every block, in trace order.

    Raises:
        ValueError: No attention of the model can be seen.
    """
    with torch.no_grad(), probe(model.module, None, request) as capture:
        together(sentences).through(model)
    blocks: list[Block] = []
    first = 0
    for record in _with_weights(capture):
        assert record.weights is not None
        weights = to_numpy(record.weights)
        on_source = record.stack == "encoder" or model.kind == "decoder-only"
        blocks.append(
            Block(
                record.site,
                first,
                "source" if on_source else "target",
                "source" if on_source or record.kind == "cross" else "target",
                weights,
                to_numpy(visible_cells(record.weights, record.scores).any(1), torch.bool),
                None if record.v is None else to_numpy(record.v),
            )
        )
        first += weights.shape[1]
    return Batch(sentences, blocks)


def _with_weights(capture: Capture) -> list[AttentionRecord]:
    found = [record for record in ordered(capture) if record.weights is not None]
    if not found:
        raise ValueError(
            "No attention of this model could be seen, so there is no head to measure; "
            "transformer-viz inspect says what was found."
        )
    return found


def alike(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield groups of blocks of one kind and map size, which can be stacked."""

    def kind(block: Block) -> tuple[Any, ...]:
        sizes = block.weights.shape[2:]
        wide = None if block.v is None else block.v.shape[1:2] + block.v.shape[-1:]
        return (block.site.stack, block.site.block, sizes, wide)

    for _, group in groupby(blocks, key=kind):
        yield list(group)


def side(sentence: Sentence, which: str) -> Tokens:
    """Return the tokens of a sentence that ``query`` or ``key`` of a block refers to."""
    read = sentence.read
    return read.source if which == "source" or read.target is None else read.target
