"""Trained Transformer as the start of a larger one: more layers, wider inside, other pieces.

A new layer adds nothing to the residual stream, and a new unit of a feed-forward block nothing to
its layer. With the same pieces the grown model therefore gives the small one's output (after Chen,
Goodfellow, Shlens 2016, "Net2Net"). A new piece starts as the mean of the old pieces of its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import sentencepiece
import torch
from torch import Tensor, nn

CLOSING = ("output.weight", "output.bias", "outer.weight", "outer.bias")  # a block's output layers
Pieces = sentencepiece.SentencePieceProcessor


class Start(NamedTuple):
    """Trained weights to start from, and their pieces (None for a model without text)."""

    weights: Mapping[str, Tensor]
    pieces: Pieces | None = None


def grown(
    weights: Mapping[str, Tensor], model: nn.Module, old: Pieces, new: Pieces
) -> dict[str, Tensor]:
    """Return the initial state dict of ``model``: trained ``weights``, resized to fit.

    ``old`` and ``new`` are the pieces of the weights and of the model. Layers, rows and columns
    that the weights lack start as the module docstring describes.

    Raises:
        ValueError: Weights of another width, which cannot be resized; the message names the first.
    """
    begun = {name: value.clone() for name, value in model.state_dict().items()}
    for name, value in begun.items():
        known = weights.get(name)
        if known is None:
            fill(name, value, value[:0])
            continue
        check(name, value, known)
        if per_piece(name):
            value.copy_(rows_of(known, old, new))
        else:
            fill(name, value, known)
    return begun


def fill(name: str, value: Tensor, known: Tensor) -> None:
    """Write trained weights into the corner of larger ones."""
    if name.endswith(CLOSING):
        value.zero_()
    value[tuple(slice(n) for n in known.shape)] = known


def check(name: str, value: Tensor, known: Tensor) -> None:
    """Check that weights differ only in pieces or in the width of a feed-forward block."""
    ours, theirs = list(value.shape), list(known.shape)
    if per_piece(name):
        fits = ours[1:] == theirs[1:]
    elif ".feed_forward." in name:
        fits = all(n >= k for n, k in zip(ours, theirs, strict=True))
    else:
        fits = ours == theirs
    if not fits:
        raise ValueError(
            f"{name} is {theirs} in the weights to grow from and {ours} in the recipe; layers, "
            "d_ff and the vocabulary can grow, every other size has to stay."
        )


def per_piece(name: str) -> bool:
    """Return True if a tensor has a row for each piece: the embeddings, and the output layer."""
    return name in ("output.weight", "output.bias") or name.endswith("tokens.weight")


def rows_of(known: Tensor, old: Pieces, new: Pieces) -> Tensor:
    """Return rows ``[piece, ...]``, such as embeddings, of the new pieces from the old ones."""
    marks = {new.pad_id(): old.pad_id(), new.bos_id(): old.bos_id(), new.eos_id(): old.eos_id()}
    rows = []
    for number in range(new.get_piece_size()):
        piece = new.id_to_piece(number)
        same = old.piece_to_id(piece)
        if number in marks:
            ids = [marks[number]]
        elif same != old.unk_id() or number == new.unk_id():
            ids = [same]
        else:
            ids = spelled(piece, old)
        rows.append(known[ids].mean(0))
    return torch.stack(rows)


def spelled(piece: str, old: Pieces) -> list[int]:
    """Return a new piece in old ones; a piece inside a word gets no word-start mark."""
    found: list[int] = old.encode(piece.replace("▁", " "), out_type=int)
    mark = old.piece_to_id("▁")
    if not piece.startswith("▁") and len(found) > 1 and found[0] == mark:
        found = found[1:]
    return found or [old.unk_id()]
