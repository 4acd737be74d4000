"""The beginning of a text that is too long: as much as fits, in whole words."""

from __future__ import annotations

import pytest

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.app.engine import trace_jobs
from transformer_viz.app.engine.query import Question
from transformer_viz.core.errors import TooLongError
from transformer_viz.core.interventions import Intervention, Pad
from transformer_viz.inference.long_texts import beginning
from transformer_viz.inference.token_ids import source_ids


def words(text: str) -> int:
    return len(text.split())


def test_it_is_the_longest_that_fits():
    cases = [
        ("one two three four", 3, words, "one two three"),
        ("one two three four", 4, words, "one two three four"),
        ("one two three four", 9, words, "one two three four"),
        ("one two  three", 9, len, "one two"),  # the cut is inside of the third word
        ("one two three", 7, len, "one two"),
        ("one two three", 8, len, "one two"),
        ("你好世界", 3, len, "你好世"),
        ("你好 世界", 4, len, "你好"),
        ("a" * 200, 120, len, "a" * 120),  # no blank near: cut anywhere
        ("👩‍👧" * 50, 122, len, "👩‍👧" * 40),  # nor inside of a family
        ("👍🏽" * 90, 121, len, "👍🏽" * 60),  # nor between a hand and its colour
        ("e\u0301" * 100, 121, len, "e\u0301" * 60),  # never between a letter and its accent
    ]
    for text, most, count, kept in cases:
        assert beginning(text, most, count) == kept, (text, most)
    refuses("Not even the first word", beginning, "word", 0, len)


def test_a_count_that_does_not_grow_evenly_is_still_kept_to():
    """A piece may be of less tokens than its beginning: the letters of half a word are many."""

    def count(text: str) -> int:
        return sum(1 if word == "longest" else len(word) for word in text.split())

    for most in range(2, 30):
        kept = beginning("ab longest " * 9, most, count)
        assert count(kept) <= most and ("ab longest " * 9).startswith(kept)


def test_a_model_says_how_much_it_reads():
    """The very number that the sentence names will do, and one more will not."""
    model = make_model(max_positions=12)
    text = " ".join(["7 8"] * 9)
    with pytest.raises(TooLongError) as error:
        source_ids(model, text)
    assert error.value.most == model.max_tokens
    assert f"at most {model.max_tokens}" in str(error.value)
    read = model.tokenizer.source_ids
    kept = beginning(text, error.value.most, lambda part: len(read(part)))
    assert text.startswith(kept) and len(source_ids(model, kept)) <= model.max_tokens
    longer = text[: len(kept) + 3]
    assert len(read(longer)) > model.max_tokens


def test_what_is_offered_leaves_room_for_padding():
    model, pad = make_model(max_positions=700), Intervention((Pad(count=20),))
    with pytest.raises(TooLongError) as error:
        trace_jobs.length(model, Question("tiny", "7 8 " * 600), pad)
    assert error.value.most == 680
