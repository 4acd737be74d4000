"""A handful of invented English sentences, and recipes that learn from them in a second or two."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from training import command
from training.corpus import train_vocabulary


def recipe_text(**words: Any) -> str:
    """Write a recipe: its plain words, and a table for each dictionary."""
    tables = {"": {name: value for name, value in words.items() if not isinstance(value, dict)}}
    tables |= {f"[{name}]": value for name, value in words.items() if isinstance(value, dict)}
    lines = []
    for head, table in tables.items():
        lines += [head, *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"


SCHEDULE = {"steps": 12, "decay_from": 9}
#: Each word stands in two forms: what is seen in one form only is no piece of the vocabulary.
SENTENCES = [
    form.format(colour, animal, verb)
    for form in ("the {} {} {}", "{}s {}s {}s")
    for colour in ("red", "blue", "old")
    for animal in ("cat", "dog", "bird")
    for verb in ("run", "sleep", "eat")
]
#: A toy language pair.
TOY = recipe_text(
    name="tiny", title="Toy to toy", seed=3, bfloat16=True, log_every=3, save_every=6,
    snapshots=[1, 4, 12],
    data={"train": "train.tsv", "valid": "valid.tsv", "test": "valid.tsv", "vocabulary": 288},
    model={"d_model": 8, "heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1,
           "max_positions": 64, "tied": "all", "dropout": 0.2},
    schedule=SCHEDULE | {"warmup": 4, "batch_tokens": 120},
    card={"data": "Invented for a test.", "attribution": "Contains nothing of anybody.",
          "licence": "none needed", "weaknesses": ["It knows twelve words."],
          "examples": ["the red cat runs"]},
)  # fmt: skip
ENGLISH = ["the", "red", "blue", "old", "cat", "dog", "bird", "runs", "sleeps", "eats"]
INVENTED = ["la", "rosa", "blua", "mala", "kato", "hundo", "birdo", "kuras", "dormas", "manas"]
KINDS = ("language", "masked")


@dataclass(frozen=True)
class Trained:
    """A finished run, and the model that was packaged of it."""

    run: Path
    out: Path


def write_recipe(kind: str, folder: Path) -> Path:
    """Write the recipe of a decoder that goes on with a text, or of an encoder that guesses."""
    stack, example = {
        "language": ({"decoder_layers": 1, "source_vocab": 0}, "the red"),
        "masked": ({"encoder_layers": 1}, "the red [cat] run"),
    }[kind]
    files = {"train": ["one.tsv", "two.tsv"], "valid": "valid.tsv", "test": "valid.tsv"}
    text = recipe_text(
        name="tiny", title="Toy English", seed=5, log_every=4, save_every=4,
        data={"task": kind, **files, "without": ["valid.tsv"], "join": 3, "vocabulary": 287},
        model={"d_model": 12, "heads": 3, "d_ff": 17, **stack, "max_positions": 64,
               "tied": "output", "dropout": 0.1},
        schedule=SCHEDULE | {"warmup": 3, "peak": 0.01, "batch_tokens": 60, "label_smoothing": 0.0},
        card={"examples": [example]},
    )  # fmt: skip
    path = folder / f"{kind}.toml"
    path.write_text(text)
    return path


def trained(recipe: Path, data: Path | None, place: Path) -> Trained:
    """Train a recipe to its end and package it."""
    command.run(recipe, data, place / "run", place / "tiny", device="cpu", threads=1)
    return Trained(place / "run", place / "tiny")


@pytest.fixture(scope="session")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two overlapping files of pairs to learn from, and one whose sentences are held out."""
    folder = tmp_path_factory.mktemp("sentences")
    lines = [f"{sentence}\tnothing" for sentence in SENTENCES]
    (folder / "one.tsv").write_text("\n".join(lines[:30] * 2) + "\n", encoding="utf-8")
    (folder / "two.tsv").write_text("\n".join(lines[20:]) + "\n", encoding="utf-8")
    (folder / "valid.tsv").write_text("\n".join(lines[:27:9] * 2) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy language pair of a few dozen sentences."""
    folder = tmp_path_factory.mktemp("pairs")
    lines = [
        "\t".join(
            " ".join(side[n] for n in (0, colour, animal, verb)) for side in (ENGLISH, INVENTED)
        )
        for colour in (1, 2, 3)
        for animal in (4, 5, 6)
        for verb in (7, 8, 9)
    ]
    (folder / "train.tsv").write_text("\n".join(lines * 2) + "\n", encoding="utf-8")
    (folder / "valid.tsv").write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The recipe of the toy language pair; a test may change it."""
    (tmp_path / "tiny.toml").write_text(TOY)
    return tmp_path / "tiny.toml"


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory, pairs: Path) -> Trained:
    """The toy language pair, learned; nothing may change it."""
    place = tmp_path_factory.mktemp("toy")
    (place / "tiny.toml").write_text(TOY)
    return trained(place / "tiny.toml", pairs, place)


@pytest.fixture(scope="session")
def pieces() -> sentencepiece.SentencePieceProcessor:
    """A vocabulary with a mask, made of the same words."""
    made = train_vocabulary([("", sentence) for sentence in SENTENCES], 287, mask=True)
    return sentencepiece.SentencePieceProcessor(model_proto=made)
