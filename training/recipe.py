"""Training recipe: all settings of a run in one TOML file."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from transformer_viz.model import ModelConfig

from .mix.shares import Mix

CONTINUED_WARMUP = 100  # updates in which a fresh optimiser gathers its averages
AVERAGED = 10  # updates between two steps of the weight average
TASKS = ("translation", "language", "masked", "digits")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Data of a recipe: its files, its vocabulary and its task.

    Attributes:
        train: Tab-separated training files (``.gz`` allowed, no header) below the data folder.
        valid: File for the validation loss.
        test: File that is only used for the score on the model card.
        task: ``translation`` of a source into a target, ``language`` (each next piece), ``masked``
            (masked pieces, from both sides), or ``digits``. The last one has built-in images and
            ignores the other fields.
        without: Files of held-out sentences, removed from the training data (not for translation).
        source, target: Columns of the files, from 0. Without translation only ``source`` is read,
            each sentence once.
        join: Largest number of sentences in a row; 1 for translation.
        vocabulary: Pieces of the sentencepiece model.
        max_tokens: Sentences with more pieces are left out.
        whole_words: Number of frequent words of each side that become single pieces.

    Raises:
        ValueError: An unknown task, or rows without a sentence.
    """

    train: str | tuple[str, ...] = ()
    valid: str = ""
    test: str = ""
    task: str = "translation"
    without: tuple[str, ...] = ()
    source: int = 0
    target: int = 1
    join: int = 1
    vocabulary: int = 8000
    max_tokens: int = 100
    whole_words: int = 0

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task={self.task!r} is not known; choose one of {', '.join(TASKS)}.")
        if self.join < 1 or (self.join > 1 and self.task == "translation"):
            raise ValueError(
                f"join={self.join} does not fit task={self.task!r}; leave it out, or give 1 or "
                "more sentences a row where nothing is translated."
            )
        if self.task != "digits" and not (self.train and self.valid):
            raise ValueError("the table data lacks train or valid; name a file for each")

    @property
    def training_files(self) -> tuple[str, ...]:
        """Names of the training files, one or several."""
        return (self.train,) if isinstance(self.train, str) else tuple(self.train)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Optimiser schedule, counted in updates.

    Nothing before ``decay_from`` depends on ``steps``, so a run can be lengthened without a
    restart.

    Attributes:
        steps: Last update.
        decay_from: Update from which the learning rate falls linearly to zero at ``steps``.
        warmup: Updates until the learning rate reaches ``peak``.
        peak: Largest learning rate, held after the warm-up.
        batch_tokens: Target tokens (or images, for digits) of an update.
        weight_decay: Weight decay of AdamW.
        label_smoothing: Label smoothing of the loss.
        clip: Largest norm of the gradient.
        fade_from: Update from which the learning rate falls with the square root of the updates; 0
            for never.
        average: Share that the average of the weights keeps at every tenth update; 0 for no
            average.
    """

    steps: int
    decay_from: int
    warmup: int = 600
    peak: float = 1e-3
    batch_tokens: int = 700
    weight_decay: float = 0.01
    label_smoothing: float = 0.1
    clip: float = 1.0
    fade_from: int = 0
    average: float = 0.0

    def rate(self, step: int) -> float:
        """Return the learning rate of update ``step`` (from 1)."""
        up = min(1.0, step / self.warmup)
        down = (self.steps - step) / max(1, self.steps - self.decay_from)
        fade = math.sqrt(min(1.0, self.fade_from / step)) if self.fade_from else 1.0
        return self.peak * fade * min(up, max(0.0, down), 1.0)


@dataclass(frozen=True, kw_only=True)
class Card:
    """Texts of the model card beside the numbers: origin of the data, expectations.

    ``examples`` are the model's inputs on its card: sentences to translate, beginnings to continue,
    or sentences with one word in ``[brackets]`` to predict. ``findings`` are paragraphs about
    further measurements, below the score.
    """

    data: str = ""
    attribution: str = ""
    licence: str = ""
    weaknesses: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    findings: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of one run.

    Attributes:
        name, seed: Name and random seed.
        data, model, schedule: Data, model config and schedule.
        snapshots: Updates after which a snapshot is kept.
        log_every, save_every: Updates between two log lines and two saves.
        valid_every: Updates between two validation losses; 0 for each save.
        bfloat16: Multiply matrices in bfloat16; weights, updates and loss stay float32.
        title, card: Title and texts of the model card.
        mix: Text generation of each pass, or None.
        keep: Number of resume files to keep, newest first.

    Raises:
        ValueError: A table or field that is missing or unknown; the message names it and the file.
    """

    name: str
    seed: int
    data: Data
    model: dict[str, Any]
    schedule: Schedule
    snapshots: tuple[int, ...] = ()
    log_every: int = 100
    save_every: int = 500
    valid_every: int = 0
    bfloat16: bool = False
    title: str = ""
    card: Card = Card()
    mix: Mix | None = None
    keep: int = 1

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Read a recipe from a TOML file; ``like`` names another one with defaults."""
        try:
            fields = _words(path)
            return cls(
                data=Data(**fields.pop("data")),
                schedule=Schedule(**fields.pop("schedule")),
                snapshots=tuple(fields.pop("snapshots", ())),
                card=Card(**fields.pop("card", {})),
                mix=Mix(**fields.pop("mix")) if "mix" in fields else None,
                **fields,
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path.name} is not a recipe: {error}. It needs name, seed and the tables data, "
                "model and schedule; compare with recipes/en-de.toml."
            ) from error

    def config(self, pieces: sentencepiece.SentencePieceProcessor) -> ModelConfig:
        """Return the model's config, with the vocabulary of this recipe."""
        size = self.data.vocabulary
        marks = {"pad_id": pieces.pad_id(), "bos_id": pieces.bos_id(), "eos_id": pieces.eos_id()}
        return ModelConfig.from_dict(
            {"source_vocab": size, "target_vocab": size} | self.model | marks
        )

    def ending(self, decay_from: int | None, steps: int | None) -> Recipe:
        """Return the recipe with another end, if one is given.

        Raises:
            ValueError: The learning rate would fall from an update after the last one.
        """
        old = self.schedule
        first = old.decay_from if decay_from is None else decay_from
        last = old.steps if steps is None else steps
        if not 0 <= first <= last:
            raise ValueError(
                f"The learning rate cannot fall from update {first} to update {last}; give "
                "--decay-from a number from 0 to --steps."
            )
        schedule = dataclasses.replace(old, decay_from=first, steps=last)
        return dataclasses.replace(self, schedule=schedule)

    def seeded(self, seed: int | None) -> Recipe:
        """Return the recipe with another seed, if one is given.

        Raises:
            ValueError: A negative number.
        """
        if seed is not None and seed < 0:
            raise ValueError(f"The seed {seed} is negative; give --seed a number from 0.")
        return self if seed is None else dataclasses.replace(self, seed=seed)

    def continued(self) -> Recipe:
        """Return the recipe for existing weights: its warm-up is short."""
        schedule = dataclasses.replace(
            self.schedule, warmup=min(self.schedule.warmup, CONTINUED_WARMUP)
        )
        return dataclasses.replace(self, schedule=schedule)


def below_recipes(path: Path) -> str:
    """Return a recipe's path below the folder ``recipes``, such as ``labs/dot.toml``."""
    parts = path.resolve().parts
    return "/".join(parts[parts.index("recipes") + 1 :]) if "recipes" in parts else path.name


def _words(path: Path) -> dict[str, Any]:
    """Return the fields of a recipe's file over those of the recipe named by ``like``."""
    words = tomllib.loads(path.read_text(encoding="utf-8"))
    if "like" not in words:
        return words
    found = _words(path.with_name(words.pop("like")))
    for name, value in words.items():
        found[name] = found.get(name, {}) | value if isinstance(value, dict) else value
    return found
