"""Sentences of a shard as ids, and batches of sentences of one length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...checkpoints.common.model import Model
from ...core.interventions import Intervention
from ...core.trace_parts import Tokens
from ...preprocessing.tokenizers import target_side
from ..generation import translate_lines
from ..model_inputs import Read, read_source
from ..token_ids import source_ids

DECODED = 32  # sources decoded together
MOST = 32  # sentences per batch
CELLS = 2**22  # weights per batch, over all heads


@dataclass(frozen=True, eq=False)
class Sentence:
    """Sentence as model input: its number in the corpus, its text and its ids."""

    number: int
    text: str
    target: str | None
    read: Read

    @property
    def query(self) -> Tokens:
        """Longer of the two sentences whose tokens are queries."""
        sides = (self.read.source, self.read.target or self.read.source)
        return max(sides, key=len)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape shared by the sentences of a batch; one with a mask or two texts is alone."""
        source, target, mask = self.read.tensors
        lone = () if mask is None and self.read.segments is None else (self.number,)
        return (source.shape[1], 0 if target is None else target.shape[1], *lone)


def read_shard(
    model: Model, items: Sequence[tuple[int, Any]]
) -> tuple[list[Sentence], list[tuple[int, str]]]:
    """Return the readable sentences of a shard, and the others with the reason."""
    readable: list[tuple[int, str, Any]] = []
    refused: list[tuple[int, str]] = []
    for number, item in items:
        text, target = item if isinstance(item, tuple) else (item, None)
        try:
            source_ids(model, text)
        except ValueError as error:
            refused.append((number, str(error)))
            continue
        readable.append((number, text, target))
    written = _written(model, readable)
    found = []
    for number, text, target in readable:
        try:
            read = read_source(model, text, written.get(number, target), Intervention(), None)
        except ValueError as error:
            refused.append((number, str(error)))
            continue
        given = target
        if number in written:
            given = target_side(model.tokenizer).decode(written[number])
        found.append(Sentence(number, text, given, read))
    return found, sorted(refused)


def _written(model: Model, items: Sequence[tuple[int, str, Any]]) -> dict[int, list[int]]:
    """Return the model's own output where no target was given, as in `tv.trace`."""
    alone = [(number, text) for number, text, target in items if target is None]
    if model.kind != "encoder-decoder" or not alone:
        return {}
    best = translate_lines(model, [text for _, text in alone], beam=1, batch=DECODED)
    start = [] if model.bos_id is None else [model.bos_id]
    found = {}
    for (number, _), one in zip(alone, best, strict=True):
        rows = [*start, *one.ids]
        full = model.max_tokens is not None and len(rows) > model.max_tokens
        found[number] = rows[:-1] if one.finished or full else rows
    return found


def batches(sentences: Sequence[Sentence], heads: int) -> Iterator[list[Sentence]]:
    """Yield batches of one shape, short sentences first; a batch depends on its shard only."""
    ordered = sorted(sentences, key=lambda one: (one.shape, one.number))
    group: list[Sentence] = []
    for one in ordered:
        longest = max(one.shape[:2])
        most = max(1, min(MOST, CELLS // max(1, heads * longest**2)))
        if group and (group[0].shape != one.shape or len(group) >= most):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def together(group: Sequence[Sentence]) -> Read:
    """Return one batched input: the parts of its sentences, concatenated."""
    if len(group) == 1:
        return group[0].read
    first = group[0].read

    def joined(place: int) -> torch.Tensor | None:
        parts = [one.read.tensors[place] for one in group]
        return None if parts[0] is None else torch.cat([p for p in parts if p is not None])

    source = joined(0)
    assert source is not None
    return Read(first.source, first.target, (source, joined(1), None))
