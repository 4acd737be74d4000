"""Where a pronoun stands, how plainly two are told apart, and whose "it" looks at a noun."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transformer_viz.core.sites import Site
from transformer_viz.core.trace_parts import Attention, Tokens
from transformer_viz.metrics.attention.it_head import (
    candidates,
    its,
    nouns,
    strongest,
    weight_on,
    words,
)
from transformer_viz.metrics.output.pronouns import drawn, margins, places, preferred


def test_pronouns_are_words_of_their_own():
    for german, found in {
        "Das Tier ging nicht, weil es zu müde war.": [("Das Tier ging nicht, weil", "es")],
        "Er schläft. Sie wacht.": [("", "Er"), ("Er schläft.", "Sie")],
        "Ich glaube, Sie wissen das.": [],  # inside a sentence a capital letter means "you"
        "Das Essen ist gut, sie essen es.": [
            ("Das Essen ist gut,", "sie"),
            ("Das Essen ist gut, sie essen", "es"),
        ],
        "Der Besen.": [],
        "": [],
    }.items():
        told = places(german)
        firsts = [german[len(one.before) :].split()[0].strip(".,") for one in told]
        assert [(one.before, first) for one, first in zip(told, firsts, strict=True)] == found
        for one, (_, word) in zip(told, found, strict=True):
            assert word in one.words and len({w.lower() for w in one.words}) == 3, german
            assert f"{one.before} {word}{one.behind}".strip() == german


def test_a_margin_is_how_many_times_more_probable_in_bits_and_draws_follow_the_first():
    chances = np.array([[0.1, 0.2, 0.4], [0.05, 0.6, 0.15]])
    found = margins(np.log(chances), (2, 1), (1, 2))
    assert found == pytest.approx([1.0, 2.0])  # 0.4 : 0.2 and 0.6 : 0.15
    many = margins(np.log(np.stack([chances, chances[::-1]])), (2, 1), (1, 2))
    assert many[0] == pytest.approx(found) and many[1] == pytest.approx([-2.0, -1.0])
    assert preferred(np.log([[0.1, 0.2, 0.7], [0.1, 0.6, 0.3]])) == (2, 1)
    # "es" in both: what gains most by the factor is 0 (from 0.01 to 0.1), not 1 (0.2 to 0.3)
    assert preferred(np.log([[0.01, 0.2, 0.79], [0.1, 0.3, 0.6]])) == (2, 0)
    ranked = [7, 3, 11, 2, 5, 13]
    some = drawn(ranked, 2, 4)
    assert some == drawn(ranked, 2, 4) and len(set(some)) == 2 and set(some) <= {11, 2, 5, 13}
    assert len({tuple(drawn(ranked, 2, seed)) for seed in range(20)}) > 3


def sentence(*pieces: str) -> Tokens:
    """Tokens of pieces; one that begins with + belongs to the word before it."""
    numbers, word = [], -1
    for piece in pieces:
        word += not piece.startswith("+")
        numbers.append(word)
    labels = tuple(piece.removeprefix("+") for piece in pieces)
    return Tokens((), labels, labels, tuple(numbers), tuple(one == "</s>" for one in labels))


TEXT = sentence("My", "eleph", "+ant", "saw", "the (2)", "door", "when", "it", "came", ".", "</s>")


def test_nouns_are_words_behind_a_determiner():
    (it,) = its(TEXT)
    assert it.tokens == (7,)
    found = [(word.text, word.tokens) for word in nouns(TEXT, it)]
    assert found == [("elephant", (1, 2)), ("door", (5,))]
    assert candidates(TEXT, it) == nouns(TEXT, it)
    assert words(TEXT)[-1].text == "."  # no special tokens
    names = sentence("Tom", "saw", "Anna", ",", "it", "was", "late")
    assert nouns(names, its(names)[0]) == []
    assert [word.text for word in candidates(names, its(names)[0])] == ["Tom", "saw", "Anna"]
    alone = sentence("It", "rains")
    assert candidates(alone, its(alone)[0]) == []


def test_the_strongest_head_by_every_sum_of_its_own():
    rng = np.random.default_rng(5)
    weights = rng.dirichlet(np.ones(11), size=(2, 3, 11)).astype(np.float32)  # layer, head, query
    blocks = tuple(
        Attention(one, Site("encoder", "self", layer), "source", "source")
        for layer, one in enumerate(weights)
    )
    run: Any = SimpleNamespace(maps=("encoder",), blocks=lambda block: blocks)
    (it,) = its(TEXT)
    options = nouns(TEXT, it)
    sums = {
        (layer, head, word.text): sum(float(weights[layer, head, 7, key]) for key in word.tokens)
        for layer, head, word in product(range(2), range(3), options)
    }
    best = max(sums, key=lambda one: sums[one])
    found = strongest(run, "encoder", it.tokens, options)
    assert found is not None
    assert (found.site.layer, found.site.head, found.word.text) == best
    assert found.weight == pytest.approx(sums[best])
    two = weight_on(weights[0], (3, 7), options[0])
    assert two[1] == pytest.approx(float(weights[0, 1, [3, 7]][:, [1, 2]].sum()) / 2)
    assert strongest(run, "cross", it.tokens, options) is None
    assert strongest(run, "encoder", it.tokens, []) is None
