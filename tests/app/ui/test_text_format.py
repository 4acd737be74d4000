"""Which words of a sentence are new."""

from __future__ import annotations

import pytest

from transformer_viz.app.ui.text_format import changed_words, ending, first_few, spelled_in_bytes
from transformer_viz.core.trace_parts import Tokens


def _new(text: str) -> str:
    return f'<span class="tv-new">{text}</span>'


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Das ist gut.", "Das ist gut.", "Das ist gut."),
        ("Das ist gut.", "Das war gut.", f"Das {_new('war')} gut."),
        ("Das ist gut.", "Das ist sehr gut.", f"Das ist {_new('sehr')} gut."),
        ("a b c", "a c", 'a <span class="tv-new" title="words left out here">…</span> c'),
        ("", "x <y>", _new("x &lt;y&gt;")),
        ("x", "", '<span class="tv-new" title="words left out here">…</span>'),
    ],
)
def test_new_words_are_marked_and_escaped(before: str, after: str, shown: str) -> None:
    assert changed_words(before, after) == shown


def test_characters_that_a_vocabulary_spells_are_named_once() -> None:
    pieces = ("▁", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "▁a", "<0xC3>", "<0xB8>", "<0xF0>")
    labels = ("␣", "🙂 1/4", "🙂 2/4", "🙂 3/4", "🙂 4/4", "a", "ø 1/2", "ø 2/2", "🙂 1/4 (2)")
    count = len(pieces)
    tokens = Tokens((), pieces, labels, tuple(range(count)), (False,) * count)
    assert spelled_in_bytes(tokens) == ("🙂", "ø")
    assert first_few(("*a*", "b"), 1) == "\\*a\\* and 1 more"


def test_of_a_long_text_the_end_is_shown_from_a_words_beginning_on() -> None:
    assert ending("short enough", 12) == "short enough"
    assert ending("one two three four", 11) == "… three four"
    assert ending("one two three four", 10) == "… four"
