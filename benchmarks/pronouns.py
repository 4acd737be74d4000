"""Who is "it"? Held-out pairs of sentences that differ in what "it" stands for.

`pronouns.tsv` was written before the training ended; its nouns and frames are in none of the
generated sentences (tests/training/test_agreement.py). The German is held up to the pronoun, and
the model is asked which of er, sie and es it prefers there.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from transformer_viz import Intervention, probe
from transformer_viz.capture import CaptureRequest
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.edits import ScaleHead
from transformer_viz.training.batches import padded

TABLE = Path(__file__).with_name("pronouns.tsv")
WORDS = ("er", "sie", "es")
TOGETHER = 40  # sentences in a pass
NOTHING = -1  # where no token stands
TWO_SENTENCES = ("two", "single")  # kinds whose "it" stands in a sentence of its own


@dataclass(frozen=True)
class Asked:
    """A sentence, the German up to the pronoun, the pronoun, and which pair it belongs to."""

    pair: str
    kind: str
    english: str
    before: str
    pronoun: str

    @property
    def words(self) -> tuple[str, ...]:
        """The three pronouns, written as here: at the beginning of a sentence or not."""
        return tuple(word.title() if self.pronoun[0].isupper() else word for word in WORDS)


def read() -> list[Asked]:
    with TABLE.open(encoding="utf-8") as file:
        return [
            Asked(
                row["pair"],
                row["kind"],
                row["english"],
                row["german_up_to_pronoun"],
                row["pronoun"],
            )
            for row in csv.DictReader(file, delimiter="\t")
        ]


def log_chances(model: Model, rows: Sequence[Asked], edit: Intervention | None = None) -> Tensor:
    """Log-probabilities of er, sie and es among the three, ``[sentence, pronoun]``."""
    found = [_of_few(model, rows[i : i + TOGETHER], edit) for i in range(0, len(rows), TOGETHER)]
    return torch.cat(found).log_softmax(-1)


def _of_few(model: Model, rows: Sequence[Asked], edit: Intervention | None) -> Tensor:
    sources = padded([model.tokenizer.source_ids(row.english) for row in rows], NOTHING)
    starts = [list(model.tokenizer.target_ids(row.before)) for row in rows]
    targets = padded(starts, NOTHING).clamp(min=0)
    want = CaptureRequest(weights=lambda _: False, statistics=False, norms=False, residuals=False)
    with torch.inference_mode(), probe(model.module, edit, want):
        logits = model.calls.forward(sources.clamp(min=0), targets, sources != NOTHING)
    return torch.stack(
        [
            logits[place, len(start) - 1, [_first_piece(model, row.before, w) for w in row.words]]
            for place, (row, start) in enumerate(zip(rows, starts, strict=True))
        ]
    )


def _first_piece(model: Model, before: str, word: str) -> int:
    """The piece that a word begins with, after the text before it."""
    start = list(model.tokenizer.target_ids(before))
    return list(model.tokenizer.target_ids(f"{before} {word}"))[len(start)]


@dataclass(frozen=True)
class Pronouns:
    """How many pronouns are right, of all and of those in a second sentence; pairs with both."""

    right: int
    asked: int
    both: int
    pairs: int
    second_right: int
    second: int
    famous: bool  # the animal and the street, both right

    @staticmethod
    def of(rows: Sequence[Asked], chances: Tensor) -> Pronouns:
        """What follows from `log_chances`."""
        said = chances.argmax(-1).tolist()
        hits = [WORDS[one] == row.pronoun.lower() for one, row in zip(said, rows, strict=True)]
        pairs: dict[str, list[bool]] = {}
        for row, hit in zip(rows, hits, strict=True):
            pairs.setdefault(row.pair, []).append(hit)
        second = [hit for row, hit in zip(rows, hits, strict=True) if row.kind in TWO_SENTENCES]
        both = [all(two) for two in pairs.values()]
        return Pronouns(
            sum(hits), len(hits), sum(both), len(both), sum(second), len(second), all(hits[:2])
        )


@dataclass(frozen=True)
class Carrier:
    """A head, and what becomes of the pronouns without it."""

    stack: str
    block: str
    layer: int
    head: int
    right: int = 0  # pronouns that are still right
    lost: float = 0.0  # nats of log-probability that the right pronoun loses, mean of the sentences

    @property
    def switched_off(self) -> ScaleHead:
        """The edit that takes this head out."""
        place = {"stack": self.stack, "block": self.block, "layer": self.layer, "head": self.head}
        return ScaleHead(value=0, **place)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        part = self.block if self.block == "cross" else f"{self.stack} {self.block}"
        return f"{part} L{self.layer} H{self.head}"


def carriers(model: Model, rows: Sequence[Asked]) -> list[Carrier]:
    """Each head switched off alone, the one that costs the right pronoun most first."""
    wanted = torch.tensor([WORDS.index(row.pronoun.lower()) for row in rows])[:, None]
    whole = log_chances(model, rows).gather(1, wanted)
    found = []
    for stack, block, layer, head in heads(model, rows[0]):
        one = Carrier(stack, block, layer, head)
        chances = log_chances(model, rows, Intervention((one.switched_off,)))
        right = Pronouns.of(rows, chances).right
        lost = float((whole - chances.gather(1, wanted)).mean())
        found.append(replace(one, right=right, lost=lost))
    return sorted(found, key=lambda one: -one.lost)


def without(
    model: Model,
    rows: Sequence[Asked],
    ranked: Sequence[Carrier],
    groups: Sequence[int],
    draws: int,
) -> list[dict[str, float]]:
    """The first heads of a ranking off together, beside as many drawn by chance of the others."""
    chance = random.Random(0)
    found = []
    for count in groups:
        drawn = [chance.sample(ranked[count:], count) for _ in range(draws)]
        right, *others = (_right_without(model, rows, few) for few in (ranked[:count], *drawn))
        by_chance = round(sum(others) / draws, 1)
        found.append({"heads": count, "right": right, "by_chance": by_chance, "draws": draws})
    return found


def _right_without(model: Model, rows: Sequence[Asked], off: Sequence[Carrier]) -> int:
    edits = Intervention(tuple(one.switched_off for one in off))
    return Pronouns.of(rows, log_chances(model, rows, edits)).right


def heads(model: Model, row: Asked) -> list[tuple[str, str, int, int]]:
    """Stack, block, layer and number of every head that runs."""
    source = torch.tensor([model.tokenizer.source_ids(row.english)])
    target = torch.tensor([list(model.tokenizer.target_ids(row.before))])
    with torch.inference_mode(), probe(model.module) as run:
        model.calls.forward(source, target, torch.ones_like(source, dtype=torch.bool))
    return [
        (one.stack, one.kind, one.layer, head)
        for one in run.attentions
        for head in range(one.heads)
    ]
