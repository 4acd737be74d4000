"""Held-out pairs of sentences that differ in the referent of "it".

`pronouns.tsv` was written before the training ended; its nouns and frames are in none of the
generated sentences (tests/training/test_agreement.py). The German text is fixed up to the pronoun,
and the model's preference among er, sie and es is measured there.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transformer_viz import Intervention
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.sites import Site
from transformer_viz.inference.experiments.held_pronouns import Held, heads, log_probabilities, off
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.attention.it_head import its, nouns, weight_on
from transformer_viz.metrics.output.pronouns import WORDS

PICTURED = ("encoder", "cross")
TABLE = Path(__file__).with_name("pronouns.tsv")
TWO_SENTENCES = ("two", "single")  # kinds with "it" in a second sentence


@dataclass(frozen=True)
class Asked:
    """A sentence, the German text up to the pronoun, the pronoun, and its pair."""

    pair: str
    kind: str
    english: str
    before: str
    pronoun: str

    @property
    def words(self) -> tuple[str, ...]:
        """Pronouns er, sie and es, capitalised as at this position."""
        return tuple(word.title() if self.pronoun[0].isupper() else word for word in WORDS)

    @property
    def held(self) -> Held:
        """Input of the model for this sentence."""
        return Held(self.english, self.before, self.words)


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
    """Return log-probabilities of er, sie and es among the three, ``[sentence, pronoun]``."""
    found = log_probabilities(model, [row.held for row in rows], edit)
    return torch.tensor(found, dtype=torch.float32).log_softmax(-1)


@dataclass(frozen=True)
class Pronouns:
    """Counts of right pronouns.

    Attributes:
        right, asked: Right pronouns, and all of them.
        both, pairs: Pairs with two right pronouns, and all pairs.
        second_right, second: Right pronouns in a second sentence, and all of those.
        famous: True if the animal and the street are both right.
    """

    right: int
    asked: int
    both: int
    pairs: int
    second_right: int
    second: int
    famous: bool  # the animal and the street, both right

    @staticmethod
    def of(rows: Sequence[Asked], chances: Tensor) -> Pronouns:
        """Return the counts from the result of `log_chances`."""
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
    """Head with the effect of its removal on the pronouns."""

    site: Site
    right: int = 0  # pronouns that are still right
    lost: float = 0.0  # mean loss of the right pronoun's log-probability, in nats

    @property
    def name(self) -> str:
        part = "cross" if self.site.block == "cross" else f"{self.site.stack} {self.site.block}"
        return f"{part} {self.site.label}"


def carriers(model: Model, rows: Sequence[Asked]) -> list[Carrier]:
    """Ablate each head alone; return them with the most costly for the right pronoun first."""
    wanted = torch.tensor([WORDS.index(row.pronoun.lower()) for row in rows])[:, None]
    whole = log_chances(model, rows).gather(1, wanted)
    found = []
    for site in heads(model, rows[0].held):
        chances = log_chances(model, rows, off([site]))
        right = Pronouns.of(rows, chances).right
        lost = float((whole - chances.gather(1, wanted)).mean())
        found.append(Carrier(site, right, lost))
    return sorted(found, key=lambda one: -one.lost)


def without(
    model: Model,
    rows: Sequence[Asked],
    ranked: Sequence[Carrier],
    groups: Sequence[int],
    draws: int,
) -> list[dict[str, float]]:
    """Ablate the first heads of a ranking together, and as many random ones of the others."""
    chance = random.Random(0)
    found = []
    for count in groups:
        drawn = [chance.sample(ranked[count:], count) for _ in range(draws)]
        right, *others = (_right_without(model, rows, few) for few in (ranked[:count], *drawn))
        by_chance = round(sum(others) / draws, 1)
        found.append({"heads": count, "right": right, "by_chance": by_chance, "draws": draws})
    return found


def _right_without(model: Model, rows: Sequence[Asked], few: Sequence[Carrier]) -> int:
    edits = off([one.site for one in few])
    return Pronouns.of(rows, log_chances(model, rows, edits)).right


def pictures(
    model: Model, rows: Sequence[Asked], ranked: Sequence[Carrier]
) -> list[dict[str, str | int | float]]:
    """Return the heads that attend most to a noun, with the effect of ablating each of them.

    Queries are the tokens of "it" in the encoder, and the row that predicts the pronoun in
    cross-attention. ``weight`` is the mean over the sentences of the largest weight on a noun.
    ``moved`` counts the pairs in which the two sentences have it on different nouns.
    """
    looks = [_looks(model, row) for row in rows]
    found: list[dict[str, str | int | float]] = []
    for block in PICTURED:
        most = np.mean([one[block].max(-1) for one in looks], axis=0)
        layer, head = (int(one) for one in np.unravel_index(most.argmax(), most.shape))
        nouns_of: dict[str, set[int]] = {}
        for row, one in zip(rows, looks, strict=True):
            nouns_of.setdefault(row.pair, set()).add(int(one[block][layer, head].argmax()))
        place = next(
            number
            for number, one in enumerate(ranked)
            if (one.site.map, one.site.layer, one.site.head) == (block, layer, head)
        )
        found.append(
            {
                "head": ranked[place].name,
                "weight": round(float(most[layer, head]), 2),
                "moved": sum(len(few) > 1 for few in nouns_of.values()),
                "pairs": len(nouns_of),
                "right": ranked[place].right,
                "place": place + 1,
                "heads": len(ranked),
            }
        )
    return found


def _looks(model: Model, row: Asked) -> dict[str, np.ndarray]:
    """Return the weight of each head on each noun before "it", by map ``[layer, head, noun]``."""
    run = trace(model, row.english, row.before, check=False)
    it = its(run.source)[-1]
    asks = {"encoder": it.tokens, "cross": (len(run.words_of("decoder")) - 1,)}
    options = nouns(run.source, it)
    return {
        block: np.array(
            [
                [weight_on(one.weights, asks[block], word) for word in options]
                for one in run.blocks(block)
            ]
        ).transpose(0, 2, 1)
        for block in PICTURED
    }
