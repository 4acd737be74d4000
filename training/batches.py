"""Batches of each training task: model inputs and wanted ids.

A row is a pair of piece-id lists; the target ends with the end token, and the source is empty if
nothing is translated. Each function returns the model's inputs and the wanted ids ``[row, token]``,
with padding at positions without a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import sentencepiece
import torch
from torch import Tensor

from .corpus import MASK, Pair

CHOSEN = 0.15  # share of the tokens that a masked model predicts; of these
HIDDEN, REPLACED = 0.8, 0.1  # are replaced by the mask, or by a random piece
Pieces = sentencepiece.SentencePieceProcessor
Batch = tuple[tuple[Tensor, ...], Tensor]


def padded(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Return rows of ids as one tensor ``[row, token]`` int64, padded at the end."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])


def translation(rows: list[Pair], pieces: Pieces, random: np.random.Generator) -> Batch:
    """Return source and decoder input; wanted is the target (Vaswani et al. 2017, section 3.1)."""
    (inputs,), wanted = language(rows, pieces, random)
    return (padded([source for source, _ in rows], pieces.pad_id()), inputs), wanted


def language(rows: list[Pair], pieces: Pieces, random: np.random.Generator) -> Batch:
    """Return the start token and the row without its last piece; wanted is each next piece."""
    pad, start = pieces.pad_id(), pieces.bos_id()
    inputs = padded([[start, *row[:-1]] for _, row in rows], pad)
    return (inputs,), padded([row for _, row in rows], pad)


def masked(rows: list[Pair], pieces: Pieces, random: np.random.Generator) -> Batch:
    """Return the row with some pieces masked; wanted are those (Devlin et al. 2018, section 3.1).

    15 % of the batch's tokens, and at least one, are chosen, never an end token. 80 % of them
    become the mask, 10 % a random piece, and 10 % stay.
    """
    pad, mask = pieces.pad_id(), pieces.piece_to_id(MASK)
    ids = padded([row for _, row in rows], pad).numpy()
    places = np.flatnonzero((ids != pad) & (ids != pieces.eos_id()))
    chosen = random.choice(places, max(1, round(CHOSEN * len(places))), replace=False)
    wanted, shown = np.full_like(ids, pad), ids.copy()
    wanted.flat[chosen] = ids.flat[chosen]
    fate = random.random(len(chosen))
    shown.flat[chosen[fate < HIDDEN]] = mask
    other = chosen[(fate >= HIDDEN) & (fate < HIDDEN + REPLACED)]
    shown.flat[other] = random.integers(mask + 1, pieces.get_piece_size(), len(other))
    return (torch.from_numpy(shown),), torch.from_numpy(wanted)


MAKERS: dict[str, Callable[[list[Pair], Pieces, np.random.Generator], Batch]] = {
    "translation": translation,
    "language": language,
    "masked": masked,
}
