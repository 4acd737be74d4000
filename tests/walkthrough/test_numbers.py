"""Addresses of numbers, and sums that can be done again from what a screen shows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from tests.conftest import TINY, make_model
from tests.support.refusals import refuses
from transformer_viz.core.sites import Site
from transformer_viz.core.stages import FORMS, OPENS, Number, Terms, Walkthrough
from transformer_viz.walkthrough import step_inside, terms
from transformer_viz.walkthrough.sum_terms import SUMS

from .laws import THEN, numbers

SOURCE, TARGET = [4, 9, 6, 21], [2, 7, 11]


@pytest.fixture(scope="module")
def chain() -> Walkthrough:
    site = Site("decoder", "cross", 1, 1)
    return step_inside(make_model(), SOURCE, TARGET, site=site, row=2)


def test_an_address_is_read_back(chain):
    for number in numbers(chain, most=2):
        assert chain.number(str(number)) == number
    assert str(Number("qkv.cross", "k", (3, 10))) == "qkv.cross/k/3/10"
    assert chain.number("qkv/k/3/10") == Number("qkv.cross", "k", (3, 10))
    assert chain.value(chain.number("qkv/k/3/10")) == chain["qkv.cross"]["k"][3, 10]
    assert chain.value(chain.number("norm.cross/mean")) == chain["norm.cross"].numbers["mean"]
    for text, said in (  # from a broken link: what there is is said
        ("", "no stage ''; it has embedding.embedding, "),
        ("nothing/out/1", "no stage 'nothing'"),
        ("qkv.cross", "qkv.cross has no ''; it has x, memory, q, k, v"),
        ("qkv.cross/w/1", "has no 'w'"),
        ("qkv.cross/k/1", "k has 2 indices from 0"),
        ("qkv.cross/k/1/1/1", "k has 2 indices"),
        ("qkv.cross/k/-1/1", "k has 2 indices"),
        ("qkv.cross/k/\N{ARABIC-INDIC DIGIT ONE}/1", "k has 2 indices"),
        ("qkv.cross/k/4/1", r"outside of k, whose shape is \[4, 11\]"),
        ("norm.cross/mean/0", "mean has 0 indices"),
    ):
        refuses(said, chain.number, text, error=LookupError)


def test_a_site_or_row_that_is_not_there_is_named():
    model = make_model()
    for words, said in (
        ({"site": Site("encoder", "self", 3, 0)}, "'encoder' has layers 0 to 2; got 3"),
        ({"site": Site("decoder", "cross", 1, 2)}, "'cross' has heads 0 to 1; got 2"),
        ({"site": Site("encoder", "self", 0)}, "one head of an attention block; got encoder L0"),
        ({"site": Site("encoder", "feed_forward", 0, 0)}, "one head of an attention block"),
        ({"site": Site("encoder", "self", 0, 0), "row": 4}, "rows 0 to 3; got 4"),
        ({"site": Site("decoder", "self", 0, 0), "row": 3}, "rows 0 to 2; got 3"),
        ({"site": Site("decoder", "self", 0, 0), "row": -1}, "rows 0 to 2; got -1"),
    ):
        given: dict[str, Any] = {"row": 0} | words
        refuses(said, step_inside, model, SOURCE, TARGET, error=LookupError, **given)
    lone = make_model(TINY, decoder_layers=0, target_vocab=0)
    where = {"site": Site("decoder", "cross", 0, 0), "row": 0}
    said = "encoder-only; it has no 'cross' attention"
    refuses(said, step_inside, lone, SOURCE, error=LookupError, **where)


def test_every_kind_has_its_axes_and_sums_and_vectors_enter_as_they_are():
    assert OPENS.keys() == FORMS.keys()
    assert set(SUMS) == {(kind, name) for kind, names in OPENS.items() for name in names}
    model = make_model(TINY, source_vocab=0, target_vocab=0, decoder_layers=0)
    x = np.random.default_rng(2).standard_normal((5, 22)).astype(np.float32)
    stage = step_inside(model, x, site=Site("encoder", "self", 0, 0), row=3)["embedding"]
    assert np.array_equal(stage["out"], x[3])
    assert stage.numbers == {"scale": 1.0, "id": -1.0}


# ---- the sum on the board -----------------------------------------------------------------------


def shown_sum(opened: Terms, digits: int) -> float:
    """The sum in decimal fractions, as they stand on the screen: no binary rounding helps."""

    def cut(value: float) -> Decimal:
        return Decimal(f"{value:.{digits}f}")

    total = sum(
        (cut(a) * cut(b) for a, b in zip(opened.a.tolist(), opened.b.tolist(), strict=True)),
        Decimal(0),
    )
    return float((total + cut(opened.bias or 0.0)) / cut(opened.divisor))


def test_a_sum_of_two_by_hand():
    ones, number = np.ones(2, np.float32), Number("a", "b", ())
    a = np.array([0.12344, 0.12344], np.float32)
    opened = Terms(number, a, ones, 0.24688, "x", "", "d_model")
    assert opened.sum == pytest.approx(0.24688, abs=1e-7)
    assert opened.digits() == 5  # with four, 0.1234 + 0.1234 is 0.2468, and 0.24688 shows as 0.2469
    assert shown_sum(opened, 5) == 0.24688
    opened = Terms(number, a, ones, 0.27376, "x", "", "d_model", bias=0.3, divisor=2.0)
    assert opened.sum == pytest.approx((0.24688 + 0.3) / 2, abs=1e-7)
    assert opened.products.tolist() == a.astype(np.float64).tolist()


@pytest.mark.shipped
def test_what_a_screen_shows_adds_up():
    """With the digits that a sum asks for, it comes out right to the fourth decimal."""
    model = tv.load("en-de", device="cpu")
    site = Site("encoder", "self", 1, 3)
    chain, needed = step_inside(model, "The cat sat.", "Katze", site=site, row=1), []
    for number in numbers(chain, most=5):
        opened = terms(model, chain, number)
        digits = opened.digits()
        again = shown_sum(opened, digits)
        assert abs(again - opened.sum) <= 0.5e-4 + 1e-9
        assert abs(THEN[opened.then](again) - opened.total) <= 1e-3 * max(1, abs(opened.total))
        needed.append(digits)
    assert max(needed) <= 7
