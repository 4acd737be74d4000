"""A thing of another kind than a public function takes: a sentence that says what to give."""

from __future__ import annotations

import json
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


@pytest.mark.shipped
def test_an_intervention_may_be_its_json_or_a_dict(small: Model) -> None:
    words = {"edits": [{"kind": "temperature", "value": 2.0}]}
    edits = tv.Intervention.from_json(json.dumps(words))
    ways: list[Any] = [edits, words, json.dumps(words)]
    traces = [tv.trace(small, "A cat.", intervention=way, check=False) for way in ways]
    assert {one.intervention.to_json() for one in traces} == {edits.to_json()}
    wrong: Any = 7
    with pytest.raises(ValueError, match="its JSON, or None for the clean run; got 7"):
        tv.trace(small, "A cat.", intervention=wrong)


@pytest.mark.shipped
def test_what_a_tokenizer_gave_is_no_text(small: Model) -> None:
    given = {"input_ids": [[5, 6]], "attention_mask": [[1, 1]]}
    with pytest.raises(ValueError, match=r'input_ids, attention_mask.*inputs\["input_ids"\]'):
        tv.trace(small, given)
    with pytest.raises(ValueError, match="one token for each row of the weights"):
        tv.from_attentions([], given)
