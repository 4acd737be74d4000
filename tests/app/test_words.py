"""Which words of a sentence are new."""

from __future__ import annotations

import pytest

from transformer_viz.pages.words import changed_words


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
