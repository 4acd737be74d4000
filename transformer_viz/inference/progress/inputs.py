"""Proof of the clean run of a model's input: the input in a batch, and with words exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

from torch import Tensor

from ...capture import Capture
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention
from ..model_inputs import Pair, Read, batch_of, between, doubled
from ..proof import token_order
from ..proof.mixing import Changed
from ..proof.prove import Proof, Seen, prove


def holds_all(capture: Capture) -> bool:
    """Return whether a run kept all that a proof compares."""
    return all(r.scores is not None or r.form != "softmax" for r in capture.attentions) and all(
        r.weights is not None and not r.leaves for r in capture.attentions
    )


def proved(
    model: Model,
    read: Read,
    seen: Seen | None = None,
    asked: Intervention | None = None,
    full: bool = False,
) -> Proof:
    """The proof of the clean run of an input; its batch holds the input and its reverse.

    Args:
        model: the model.
        read: the input.
        seen: the run and an unwatched pass, where they were made.
        asked: the edits that the run is made for.
        full: try each law by itself, remember nothing, and exchange each word alone too.
    """
    lone = "decoder" if model.kind == "decoder-only" else "encoder"

    def alone() -> Tensor:
        return read.through(model)

    def together() -> Tensor:
        return (doubled(read) if full else between(read)).through(model)

    return prove(
        model.module,
        alone,
        stack=lone,
        together=together,
        changed=list(exchanges(model, read, full)),
        join=lambda some: joined(read, some).through(model),
        seen=seen,
        brief=not full,
        asked=asked,
    )


def exchanges(model: Model, read: Read, every: bool = False) -> Iterator[Changed]:
    """Calls on the same input with some words exchanged, then ``every`` word alone; special tokens
    and patches of a picture stay."""
    for side, ids in enumerate(read.tensors[:2]):
        if ids is None or ids.is_floating_point() or ids.dim() != 2:
            continue
        tokens = read.target if side else read.source
        kept = set(read.beside.places) if side == 0 and read.beside is not None else set()
        kept |= set() if tokens is None else {n for n, one in enumerate(tokens.special) if one}
        stack = None
        if read.tensors[1] is not None:
            stack = "decoder" if side else "encoder"
        size = ids.shape[1]
        words = [n for n in range(size) if n not in kept]
        for one in token_order.exchanges(ids, words, every):
            other = batch_of(read, [text_of(read, one.made, stack)])
            yield Changed(one.tokens, size, partial(other.through, model), stack, one.made)


def text_of(read: Read, made: Tensor | None, stack: str | None) -> Pair:
    """Return source and target with changed tokens in the place of a stack's own."""
    source, target, _ = read.tensors
    return (source, made) if stack == "decoder" else (cast(Tensor, made), target)


def joined(read: Read, changed: Sequence[Changed]) -> Read:
    """Return a batch of changed texts, with the input before and behind them."""
    own = read.tensors[:2]
    return batch_of(read, [own, *(text_of(read, one.made, one.stack) for one in changed), own])
