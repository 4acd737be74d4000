"""A handful of invented English sentences, and recipes that learn from them in a second or two."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece

from training.corpus import train_vocabulary

RECIPE = """
name = "tiny"
title = "Toy English"
seed = 5
log_every = 4
save_every = 4

[data]
task = "{task}"
train = ["one.tsv", "two.tsv"]
valid = "valid.tsv"
test = "valid.tsv"
without = ["valid.tsv"]
join = 3
vocabulary = 287

[model]
d_model = 12
heads = 3
d_ff = 17
{stack}
max_positions = 64
tied = "output"
dropout = 0.1

[schedule]
steps = 12
decay_from = 9
warmup = 3
peak = 0.01
batch_tokens = 60
label_smoothing = 0.0

[card]
examples = ["{example}"]
"""
#: Each word stands in two forms: what is seen in one form only is no piece of the vocabulary.
SENTENCES = [
    form.format(colour, animal, verb)
    for form in ("the {} {} {}", "{}s {}s {}s")
    for colour in ("red", "blue", "old")
    for animal in ("cat", "dog", "bird")
    for verb in ("run", "sleep", "eat")
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two overlapping files of pairs to learn from, and one whose sentences are held out."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"{sentence}\tnothing" for sentence in SENTENCES]
    (folder / "one.tsv").write_text("\n".join(lines[:30] * 2) + "\n", encoding="utf-8")
    (folder / "two.tsv").write_text("\n".join(lines[20:]) + "\n", encoding="utf-8")
    (folder / "valid.tsv").write_text("\n".join(lines[:27:9] * 2) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def language(tmp_path: Path) -> Path:
    """The recipe of a decoder that goes on with a text."""
    words = {"task": "language", "example": "the red"}
    path = tmp_path / "language.toml"
    path.write_text(RECIPE.format(**words, stack="decoder_layers = 1\nsource_vocab = 0"))
    return path


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    """The recipe of an encoder that guesses hidden pieces."""
    words = {"task": "masked", "example": "the red [cat] run"}
    path = tmp_path / "masked.toml"
    path.write_text(RECIPE.format(**words, stack="encoder_layers = 1"))
    return path


@pytest.fixture(scope="session")
def pieces() -> sentencepiece.SentencePieceProcessor:
    """A vocabulary with a mask, made of the same words."""
    made = train_vocabulary([("", sentence) for sentence in SENTENCES], 287, mask=True)
    return sentencepiece.SentencePieceProcessor(model_proto=made)
