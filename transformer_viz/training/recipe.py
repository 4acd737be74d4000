"""A training recipe: everything that makes a run, in one TOML file."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model import ModelConfig

CONTINUED_WARMUP = 100  # updates in which a fresh optimiser gathers its averages


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which sentence pairs to read and how to cut them into pieces.

    ``train`` and ``valid`` name tab-separated files (``.gz`` allowed, no header) below the data
    folder, and ``test`` one that is only for the score on the model card; ``source`` and
    ``target`` are their columns from 0; ``vocabulary`` counts the pieces of one joint
    sentencepiece model; longer pairs than ``max_tokens`` pieces a side are left out.
    """

    train: str
    valid: str
    test: str = ""
    source: int = 0
    target: int = 1
    vocabulary: int = 8000
    max_tokens: int = 100


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the weights are moved, counted in updates.

    ``batch_tokens`` target tokens an update; ``peak`` learning rate, reached after ``warmup``
    updates, held, and from update ``decay_from`` lowered in a straight line to zero at ``steps``.
    While it is held, nothing depends on ``steps``: a run can be lengthened without starting over.
    """

    steps: int
    decay_from: int
    warmup: int = 600
    peak: float = 1e-3
    batch_tokens: int = 700
    weight_decay: float = 0.01
    label_smoothing: float = 0.1
    clip: float = 1.0

    def rate(self, step: int) -> float:
        """The learning rate of update ``step`` (from 1)."""
        up = min(1.0, step / self.warmup)
        down = (self.steps - step) / max(1, self.steps - self.decay_from)
        return self.peak * min(up, max(0.0, down), 1.0)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What the model card says beside the numbers: where the data is from, what to expect.

    ``examples`` are sentences that the finished model translates on its card.
    """

    data: str = ""
    attribution: str = ""
    licence: str = ""
    weaknesses: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One run: name, seed, data, model, schedule, and the updates after which to keep a snapshot.

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
    bfloat16: bool = False
    title: str = ""
    card: Card = Card()

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Read a recipe from a TOML file."""
        try:
            words = tomllib.loads(path.read_text(encoding="utf-8"))
            return cls(
                data=Data(**words.pop("data")),
                schedule=Schedule(**words.pop("schedule")),
                snapshots=tuple(words.pop("snapshots", ())),
                card=Card(**words.pop("card", {})),
                **words,
            )
        except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path.name} is not a recipe: {error}. It needs name, seed and the tables data, "
                "model and schedule; compare with recipes/en-de.toml."
            ) from error

    def config(self, pad_id: int, bos_id: int, eos_id: int) -> ModelConfig:
        """The model's words, with the vocabulary that this recipe makes."""
        words = dict(self.model)
        vocabulary = self.data.vocabulary
        return ModelConfig.from_dict(
            {"source_vocab": vocabulary, "target_vocab": vocabulary}
            | words
            | {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}
        )

    def continued(self) -> Recipe:
        """The same recipe for weights that exist already: its warm-up is short."""
        schedule = dataclasses.replace(
            self.schedule, warmup=min(self.schedule.warmup, CONTINUED_WARMUP)
        )
        return dataclasses.replace(self, schedule=schedule)
