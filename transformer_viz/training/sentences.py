"""Learning from sentences: a task of the training loop that translates, continues or fills in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import sentencepiece
from torch import Tensor

from ..checkpoints.common.bundled import VOCABULARY
from ..model import Transformer
from .batches import MAKERS, Batch
from .corpus import encode_pairs, endless, read_sentences, read_training, train_vocabulary
from .recipe import Recipe
from .write_file import write

TOGETHER = 64  # sentences in a batch of those that are never learned from


class Sentences:
    """The sentences of a recipe in pieces, and the Transformer that learns from them.

    The vocabulary lies in the run's folder; it is made there when it is missing.

    Raises:
        ValueError: data that is missing, or a vocabulary of another size.
    """

    def __init__(self, recipe: Recipe, data: Path, folder: Path):
        self.recipe = recipe
        pairs = read_training(data, recipe.data)
        self.pieces = make_pieces(pairs, recipe, folder / VOCABULARY)
        self.ignored = self.pieces.pad_id()
        self.pairs = encode_pairs(pairs, self.pieces, recipe.data)
        valid = read_sentences(data / recipe.data.valid, recipe.data)
        self.valid = encode_pairs(valid, self.pieces, recipe.data)
        self.make = MAKERS[recipe.data.task]

    def module(self) -> Transformer:
        """The recipe's model with random weights."""
        return Transformer(self.recipe.config(self.pieces))

    def batches(self, after: int) -> Iterator[Batch]:
        """The batches of the updates that follow update ``after``; the same after a kill."""
        recipe = self.recipe
        rows = endless(
            self.pairs, recipe.schedule.batch_tokens, recipe.seed, after, recipe.data.join
        )
        for step, batch in zip(count(after + 1), rows, strict=False):
            yield self.make(batch, self.pieces, np.random.default_rng((recipe.seed, step)))

    def unseen(self) -> Iterator[Batch]:
        """The validation sentences; a masked model is asked for the same pieces each time."""
        random = np.random.default_rng((self.recipe.seed, 0))
        for start in range(0, len(self.valid), TOGETHER):
            yield self.make(self.valid[start : start + TOGETHER], self.pieces, random)

    def answers(
        self, model: Transformer, inputs: list[Tensor], wanted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logits ``[token, vocabulary]`` and the ids that are wanted there ``[token]``."""
        if model.config.kind != "encoder-only":
            return model(*inputs).flatten(0, 1), wanted.flatten()
        asked = wanted != self.ignored  # few are: the others are spared the output layer
        states = model.encode(inputs[0], model.padding_mask(inputs[0]))
        return model.logits(states[asked]), wanted[asked]


def make_pieces(
    pairs: list[tuple[str, str]], recipe: Recipe, path: Path
) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary of a run: the one that lies there, or a new one, which is stored."""
    size = recipe.data.vocabulary
    if not path.exists():
        write(path, train_vocabulary(pairs, size, mask=recipe.data.task == "masked"))
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    if pieces.get_piece_size() != size:
        raise ValueError(
            f"{path} has {pieces.get_piece_size()} pieces, the recipe {size}; they belong to "
            "different runs. Name another folder for this run."
        )
    return pieces
