"""A thing of another kind than a public function takes: a sentence that says what to give."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints import Model


@pytest.fixture(scope="module")
def small() -> Model:
    return tv.load("en-de-small", device="cpu")


@pytest.mark.shipped
def test_a_module_is_to_be_opened_first() -> None:
    layer: Any = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"takes what tv.load gave; got a Linear"):
        tv.trace(layer, "a")


@pytest.mark.shipped
def test_what_is_no_trace_and_no_table(small: Model) -> None:
    thing: Any = small
    with pytest.raises(ValueError, match=r"reads a trace, .*; got a Model"):
        tv.align(thing)
    with pytest.raises(ValueError, match=r"a table of tv.metrics; got a Model"):
        tv.roles(thing)


@pytest.mark.shipped
def test_one_list_of_ids_is_no_list_of_sentences(small: Model) -> None:
    with pytest.raises(ValueError, match="got one list of ids"):
        tv.rank(small, [5, 6, 7])
    with pytest.raises(ValueError, match="list of sentences, of lists of ids"):
        tv.metrics(small, [5, 6, 7])


@pytest.mark.shipped
def test_a_swap_says_which_piece_of_a_word_it_measures(small: Model) -> None:
    found = tv.swap(small, "I see a dog.", "I see a cat.", words=("Hunde", "Katze"), target="Ich")
    piece = small.tokenizer.tokens([found.card["word_ids"][0]]).labels[0]
    assert "Hunde".startswith(piece) and piece != "Hunde"
    assert found.bench.question.words[0] == f"{piece}… (Hunde)"
    with pytest.raises(ValueError, match=r"'qqqq' begins with the piece .* no letter"):
        tv.swap(small, "I see a dog.", "I see a cat.", words=("qqqq", "Katze"), target="Ich")
