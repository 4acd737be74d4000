"""How held-out pronouns are counted, and that the translator in the box knows who "it" is."""

from __future__ import annotations

import pytest
import torch

from benchmarks import pronouns
from benchmarks.pronouns import Asked, Pronouns, log_chances, read
from benchmarks.translator import complete
from transformer_viz import load
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.sites import Site
from transformer_viz.inference.experiments.held_pronouns import off
from transformer_viz.inference.generation import translate

ROWS = [
    Asked("1", "one", "The cat saw the dog because it was big.", "..., weil", "er"),
    Asked("1", "one", "The cat saw the dog because it was small.", "..., weil", "sie"),
    Asked("2", "two", "The dog ate the bread. It was hungry.", "....", "Er"),
    Asked("2", "two", "The dog ate the bread. It was mouldy.", "....", "Es"),
]


def test_pronouns_are_counted_by_hand() -> None:
    says = {"er": 0, "sie": 1, "es": 2}
    chances = torch.eye(3)[[says[word] for word in ("er", "sie", "er", "sie")]]
    counted = Pronouns.of(ROWS, chances)
    assert (counted.right, counted.asked) == (3, 4)
    assert (counted.both, counted.pairs) == (1, 2)
    assert (counted.second_right, counted.second) == (1, 2)
    assert counted.famous  # the first two rows


@pytest.mark.parametrize(
    ("source", "target", "whole"),
    [
        ("It rains. We stay.", "Es regnet. Wir bleiben.", True),
        ("It rains. We stay.", "Es regnet, wir bleiben.", False),
        ("Mr. Lee came at 3:30 p.m. yesterday.", "Herr Lee kam gestern um 15:30 Uhr.", True),
        ("One long sentence that was cut short by the model.", "Ein Satz.", False),
    ],
)
def test_what_counts_as_complete(source: str, target: str, whole: bool) -> None:
    assert complete(source, target) == whole


@pytest.fixture(scope="module")
def en_de() -> Model:
    return load("en-de", device="cpu")


@pytest.mark.shipped
def test_the_animal_is_tired_and_the_street_is_wide(en_de: Model) -> None:
    """The pair of Vaswani et al.'s blog, by two ways: held German, and a free translation."""
    rows = read()[:2]
    said = log_chances(en_de, rows).argmax(-1).tolist()
    assert [pronouns.WORDS[one] for one in said] == ["es", "sie"]
    free = [translate(en_de, row.english, beam=4)[0].text for row in rows]
    assert ["es zu" in text for text in free] == [True, False]
    assert ["sie zu" in text for text in free] == [False, True]


@pytest.mark.shipped
def test_a_head_that_is_off_is_off_in_every_row(en_de: Model) -> None:
    """Against the model run sentence by sentence with the same edit."""
    edit = off([Site("decoder", "cross", 1, 2)])
    rows = read()[:4]
    together = log_chances(en_de, rows, edit)
    alone = torch.cat([log_chances(en_de, [row], edit) for row in rows])
    assert torch.allclose(together, alone, atol=1e-4)
    assert not torch.allclose(together, log_chances(en_de, rows), atol=1e-3)
