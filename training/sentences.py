"""Text tasks of the training loop: translation, continuation or masked prediction."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, cycle, islice
from pathlib import Path

import numpy as np
import sentencepiece
from torch import Tensor

from transformer_viz.checkpoints.common.bundled import VOCABULARY
from transformer_viz.model import Transformer

from .batches import MAKERS, Batch
from .corpus import (
    Pair,
    encode_pairs,
    endless,
    epoch_batches,
    read_sentences,
    read_training,
    train_vocabulary,
)
from .mix.shares import Mix
from .mix.text import gather, pass_text
from .recipe import Data, Recipe
from .whole_words import with_whole_words
from .write_file import write

TOGETHER = 64  # held-out sentences in a batch


class Sentences:
    """The encoded sentences of a recipe, and the Transformer that learns from them.

    The vocabulary is a file in the run's folder; it is created if missing.

    Raises:
        ValueError: Data that is missing, or a vocabulary of another size.
    """

    def __init__(self, recipe: Recipe, data: Path, folder: Path):
        self.recipe = recipe
        self.corpus = gather(read_files(data, recipe.data), recipe.mix) if recipe.mix else None
        pairs = self.text(0) if recipe.mix else read_training(data, recipe.data)
        self.pieces = make_pieces(pairs, recipe, folder / VOCABULARY)
        self.ignored = self.pieces.pad_id()
        self.pairs = [] if recipe.mix else encode_pairs(pairs, self.pieces, recipe.data)
        valid = read_sentences(data / recipe.data.valid, recipe.data)
        valid += self.corpus.held_back if self.corpus else []
        self.valid = encode_pairs(valid, self.pieces, recipe.data)
        self.make = MAKERS[recipe.data.task]

    def module(self) -> Transformer:
        """Return the recipe's model with random weights."""
        return Transformer(self.recipe.config(self.pieces))

    def batches(self, after: int) -> Iterator[Batch]:
        """Yield the batches of the updates after update ``after``; the same after a restart."""
        recipe = self.recipe
        tokens = recipe.schedule.batch_tokens
        if recipe.mix:
            rows = self.mixed(recipe.mix, tokens, after)
        else:
            rows = endless(self.pairs, tokens, recipe.seed, after, recipe.data.join)
        for step, batch in zip(count(after + 1), rows, strict=False):
            yield self.make(batch, self.pieces, np.random.default_rng((recipe.seed, step)))

    def text(self, number: int) -> list[tuple[str, str]]:
        """Return the generated pairs of a pass, with fewer agreement pairs once the rate falls."""
        mix, schedule = self.recipe.mix, self.recipe.schedule
        assert mix is not None and self.corpus is not None
        late = number * mix.updates >= schedule.decay_from
        return pass_text(self.corpus, mix, self.recipe.seed, number, late)

    def mixed(self, mix: Mix, tokens: int, after: int) -> Iterator[list[Pair]]:
        """Yield the batches of one pass after another, ``mix.updates`` of them each."""
        first, skip = divmod(after, mix.updates)
        for number in count(first):
            random = np.random.default_rng((self.recipe.seed, number))
            pairs = encode_pairs(
                self.text(number), self.pieces, self.recipe.data, mix.other_cuts, random
            )
            batches = epoch_batches(pairs, tokens, self.recipe.seed, number)
            for batch in islice(cycle(batches), skip, mix.updates):
                yield [pairs[i] for i in batch]
            skip = 0

    def unseen(self) -> Iterator[Batch]:
        """Yield the validation sentences; masked pieces are the same each time."""
        random = np.random.default_rng((self.recipe.seed, 0))
        for start in range(0, len(self.valid), TOGETHER):
            yield self.make(self.valid[start : start + TOGETHER], self.pieces, random)

    def answers(
        self, model: Transformer, inputs: list[Tensor], wanted: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits ``[token, vocabulary]`` and the wanted ids ``[token]``."""
        if model.config.kind == "decoder-only":
            return model(*inputs).flatten(0, 1), wanted.flatten()
        asked = wanted != self.ignored  # the others skip the output layer
        mask = model.padding_mask(inputs[0])
        states = model.encode(inputs[0], mask)
        if model.config.kind == "encoder-decoder":
            states = model.states(inputs[1], states, mask)
        return model.logits(states[asked]), wanted[asked]


def read_files(folder: Path, data: Data) -> dict[str, list[tuple[str, str]]]:
    """Return the training files, by name without ``.tsv``.

    Raises:
        ValueError: A file that is missing or has too few columns.
    """
    return {
        Path(name).name.partition(".tsv")[0]: read_sentences(folder / name, data)
        for name in data.training_files
    }


def make_pieces(
    pairs: list[tuple[str, str]], recipe: Recipe, path: Path
) -> sentencepiece.SentencePieceProcessor:
    """Return the vocabulary of a run: the stored one, or a new one, which is stored."""
    size = recipe.data.vocabulary
    if not path.exists():
        made = train_vocabulary(pairs, size, mask=recipe.data.task == "masked")
        write(path, with_whole_words(made, pairs, recipe.data.whole_words))
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    if pieces.get_piece_size() != size:
        raise ValueError(
            f"{path} has {pieces.get_piece_size()} pieces, the recipe {size}; they belong to "
            "different runs. Name another folder for this run."
        )
    return pieces
