"""A training recipe: everything that makes a run, in one TOML file."""

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
AVERAGED = 10  # updates between two that move the average of the weights
TASKS = ("translation", "language", "masked", "digits")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which sentences to read, how to cut them into pieces, and what to learn from them.

    ``task`` says what is learned: ``translation`` of a source into a target, ``language`` (each
    next piece), ``masked`` (hidden pieces, from both sides), or ``digits``, which brings its own
    images and reads nothing of the rest. ``train`` and ``valid`` name tab-separated files
    (``.gz`` allowed, no header) below the data folder, and ``test`` one that is only for the
    score on the model card; ``source`` and ``target`` are their columns from 0. Where nothing is
    translated, the column ``source`` alone is read, each sentence once and none that stands in
    the files ``without``, and a row of a batch holds 1 to ``join`` sentences. ``vocabulary``
    counts the pieces of one sentencepiece model, in which the ``whole_words`` most frequent words
    of each side are single pieces; sentences of more than ``max_tokens`` pieces are left out.

    Raises:
        ValueError: an unknown task; rows without a sentence.
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
        """The files to learn from: one name or several."""
        return (self.train,) if isinstance(self.train, str) else tuple(self.train)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the weights are moved, counted in updates.

    ``batch_tokens`` target tokens (images, where digits are learned) an update; ``peak`` learning
    rate, reached after ``warmup`` updates, held, from update ``fade_from`` (0: never) lowered with
    the square root of the updates, and from ``decay_from`` in a straight line to zero at
    ``steps``. Before that nothing depends on ``steps``: a run can be lengthened without starting
    over. Every tenth update moves an average of the weights, which keeps the share ``average``
    of itself (0: no average).
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
        """The learning rate of update ``step`` (from 1)."""
        up = min(1.0, step / self.warmup)
        down = (self.steps - step) / max(1, self.steps - self.decay_from)
        fade = math.sqrt(min(1.0, self.fade_from / step)) if self.fade_from else 1.0
        return self.peak * fade * min(up, max(0.0, down), 1.0)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the model card says beside the numbers: where the data is from, what to expect.

    ``examples`` are what the finished model is given on its card: sentences to translate,
    beginnings to go on from, or sentences with one word in ``[brackets]`` to be guessed.
    ``findings`` are paragraphs about what else was measured, below the score.
    """

    data: str = ""
    attribution: str = ""
    licence: str = ""
    weaknesses: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    findings: str = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One run: name, seed, data, model, schedule, and the updates after which to keep a snapshot.

    ``keep`` resume files are kept, the newest first; ``valid_every`` (0: at each save) says how
    often the loss on unseen sentences is measured. ``mix`` makes the text anew for each pass.
    ``bfloat16`` multiplies matrices in bfloat16; weights, their updates and the loss stay float32.

    Raises:
        ValueError: a table or word that is missing or unknown; names it and the file.
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
        """Read a recipe from a TOML file; ``like`` names one beside it, for what it leaves out."""
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
        """The model's words, with the vocabulary that this recipe makes."""
        size = self.data.vocabulary
        marks = {"pad_id": pieces.pad_id(), "bos_id": pieces.bos_id(), "eos_id": pieces.eos_id()}
        return ModelConfig.from_dict(
            {"source_vocab": size, "target_vocab": size} | self.model | marks
        )

    def ending(self, decay_from: int | None, steps: int | None) -> Recipe:
        """The same recipe with another end, where one is given.

        Raises:
            ValueError: the learning rate would fall from an update behind the last one.
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
        """The same recipe with another seed, where one is given.

        Raises:
            ValueError: a negative number.
        """
        if seed is not None and seed < 0:
            raise ValueError(f"The seed {seed} is negative; give --seed a number from 0.")
        return self if seed is None else dataclasses.replace(self, seed=seed)

    def continued(self) -> Recipe:
        """The same recipe for weights that exist already: its warm-up is short."""
        schedule = dataclasses.replace(
            self.schedule, warmup=min(self.schedule.warmup, CONTINUED_WARMUP)
        )
        return dataclasses.replace(self, schedule=schedule)


def below_recipes(path: Path) -> str:
    """A recipe's file as it is called below the folder ``recipes``, such as ``labs/dot.toml``."""
    parts = path.resolve().parts
    return "/".join(parts[parts.index("recipes") + 1 :]) if "recipes" in parts else path.name


def _words(path: Path) -> dict[str, Any]:
    """The words of a recipe's file over those of the one that it is like."""
    words = tomllib.loads(path.read_text(encoding="utf-8"))
    if "like" not in words:
        return words
    found = _words(path.with_name(words.pop("like")))
    for name, value in words.items():
        found[name] = found.get(name, {}) | value if isinstance(value, dict) else value
    return found
