"""Texts with some words exchanged for others, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor

from ..checkpoints.common.model import Model
from .model_inputs import Read
from .proof import token_order
from .proof.mixing import Changed

Text = tuple[Tensor, Tensor | None]  # source and target


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


def text_of(read: Read, made: Tensor | None, stack: str | None) -> Text:
    """Return source and target with changed tokens in the place of a stack's own."""
    source, target, _ = read.tensors
    return (source, made) if stack == "decoder" else (cast(Tensor, made), target)


def joined(read: Read, changed: Sequence[Changed]) -> Read:
    """Return a batch of changed texts, with the input before and behind them."""
    own = read.tensors[:2]
    return batch_of(read, [own, *(text_of(read, one.made, one.stack) for one in changed), own])


def doubled(read: Read) -> Read:
    """A batch of two: the input, and the same with its tokens (or columns) in reverse."""
    return batch_of(read, [read.tensors[:2], reverse(read)])


def between(read: Read) -> Read:
    """Return a batch of three: the input between two of its reverse."""
    return batch_of(read, [reverse(read), read.tensors[:2], reverse(read)])


def reverse(read: Read) -> Text:
    """Return source and target with tokens (or columns) in reverse."""
    source, target = (
        None if x is None else x.flip(-1 if x.dim() != 3 else 1) for x in read.tensors[:2]
    )
    return cast(Tensor, source), target


def batch_of(read: Read, texts: Sequence[Text]) -> Read:
    """Return a batch of texts, all with the mask and the segments of the input."""
    source = torch.cat([one for one, _ in texts])
    targets = [other for _, other in texts if other is not None]
    mask, segments = (
        None if x is None else x.repeat(len(texts), *[1] * (x.dim() - 1))
        for x in (read.tensors[2], read.segments)
    )
    tensors = (source, torch.cat(targets) if targets else None, mask)
    return replace(read, tensors=tensors, segments=segments)
