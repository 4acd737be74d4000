"""How held-out pronouns are counted, and that the translator in the box knows who "it" is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.support.paths import ROOT
from training.recipe import Recipe
from training.tables import pronouns, translator
from training.tables.pronouns import Asked, Carrier, Pronouns, log_chances, read
from training.tables.translator import KEPT, complete
from transformer_viz import load, trace
from transformer_viz.app.pages.about import ABOUT
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


def test_what_counts_as_complete() -> None:
    for source, target, whole in (
        ("It rains. We stay.", "Es regnet. Wir bleiben.", True),
        ("It rains. We stay.", "Es regnet, wir bleiben.", False),
        ("Mr. Lee came at 3:30 p.m. yesterday.", "Herr Lee kam gestern um 15:30 Uhr.", True),
        ("One long sentence that was cut short by the model.", "Ein Satz.", False),
    ):
        assert complete(source, target) == whole, target


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


@pytest.mark.shipped
def test_the_head_with_the_clearest_picture_by_hand(en_de: Model) -> None:
    """Of two pairs, from the weights of plain runs; the place comes from the ranking given."""
    rows = read()[:4]
    sites = (*(Site("encoder", "self", n, h) for n in range(4) for h in range(8)),
             *(Site("decoder", "cross", n, h) for n in range(3) for h in range(8)))  # fmt: skip
    ranked = [Carrier(site, right=number) for number, site in enumerate(sites)]
    found = pronouns.pictures(en_de, rows, ranked)
    named = {"1": ("animal", "street"), "2": ("cat", "tree")}
    for block, one in zip(("encoder", "cross"), found, strict=True):
        looks = []
        for row in rows:
            run = trace(en_de, row.english, target=row.before, check=False)
            labels = list(run.source.labels)
            query = labels.index("it") if block == "encoder" else len(run.words_of("decoder")) - 1
            columns = [labels.index(noun) for noun in named[row.pair]]
            looks.append(run.attention(block)[:, :, query][..., columns])
        most = np.mean([look.max(-1) for look in looks], axis=0)
        layer, head = np.unravel_index(most.argmax(), most.shape)
        first = [int(look[layer, head].argmax()) for look in looks]
        assert str(one["head"]).endswith(f"L{layer} H{head}")
        assert one["weight"] == pytest.approx(most.max(), abs=0.006)
        assert one["moved"] == (first[0] != first[1]) + (first[2] != first[3])
        assert (one["pairs"], one["heads"]) == (2, len(sites))
        assert one["place"] == int(one["right"]) + 1  # as ranked above


def figures() -> dict[str, str]:
    """What the benchmark measured of en-de, as it is said: whole numbers alone."""
    column = json.loads(KEPT.read_text(encoding="utf-8"))["en-de"]
    asked, heads = column["pronouns"], column["heads"]
    encoder, cross = column["pictures"]
    eight = next(group for group in column["without"] if group["heads"] == 8)
    return {
        "right": str(asked["right"]),
        "asked": str(asked["asked"]),
        "first": str(heads[0]["right"]),
        "others": str(min(one["right"] for one in heads[1:])),
        "eight": str(eight["right"]),
        "chance": f"{eight['by_chance']:.0f}",
        "first head": heads[0]["head"].split(maxsplit=1)[1],
        "encoder": str(encoder["right"]),
        "encoder head": encoder["head"].removeprefix("encoder self "),
        "still": f"{encoder['pairs'] - encoder['moved']} of {encoder['pairs']} pairs",
        "cross": str(cross["right"]),
        "cross head": cross["head"].removeprefix("cross "),
        "moved": f"{cross['moved']} of {cross['pairs']} pairs",
    }


def spelled(head: str) -> str:
    layer, number = head.split()
    return f"layer {layer[1:]} head {number[1:]}"


def test_card_and_about_say_what_was_measured() -> None:
    told, card = figures(), (ROOT / "pretrained/en-de/README.md").read_text(encoding="utf-8")
    for said in (
        f"of {told['asked']} held-out sentences with unseen nouns the right one of *er, sie, es* "
        f"is the most probable in {told['right']}",
        f"Without cross-attention {spelled(told['first head'])}, {told['first']} are right, "
        f"without any other head {told['others']} or more",
        f"without the eight heads that matter most {told['eight']} (a third would be chance), "
        f"without eight others {told['chance']}.",
        f"{spelled(told['encoder head'])}, is none of them: in "
        f"{told['still']} it looks at the same noun in both sentences, and without it "
        f"{told['encoder']} are right",
        f"Cross-attention {spelled(told['cross head'])}, which looks most at a noun where the "
        f"pronoun is to come, looks at another noun in {told['moved']}; without it {told['cross']} "
        "are right",
    ):
        assert said in card
    assert Recipe.read(ROOT / "recipes/en-de.toml").card.findings in card
    about = " ".join(ABOUT)
    for said in (
        f"about {told['asked']} sentences in pairs",
        f"{told['right']} are right. The encoder head whose “it” looks most at a noun "
        f"({told['encoder head']}) looks at the same noun in both sentences of {told['still']}, "
        f"and without it {told['encoder']} are right. Without cross-attention {told['first head']} "
        f"it is {told['first']}, without any other head alone {told['others']} or more, without "
        f"the eight that matter most {told['eight']}, without eight others by "
        f"chance {told['chance']}.",
    ):
        assert said in about
    page = (ROOT / "docs/translator.md").read_text(encoding="utf-8")
    measured = json.loads(KEPT.read_text(encoding="utf-8"))
    assert page == translator.page(measured, list(measured))
